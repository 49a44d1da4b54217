#include <lab/report/markup.hpp>
#include <lab/report/page.hpp>

#include <fmt/format.h>

namespace kl {
namespace {

// Colours by role, light, dark and on paper; everything else follows from them.
constexpr std::string_view kLight =
    "--paper:#ffffff;--panel:#f4f6f8;--ink:#1c2127;--soft:#59636e;--line:#d5dae0;--grid:#e8ebef;"
    "--candidate:#0a63c9;--baseline:#7b8490;--band:#e3e8ee;--good:#16702f;--bad:#b42318;--warn:#8a5700;--link:#0a5ac2";
constexpr std::string_view kDark =
    "--paper:#14171b;--panel:#1d2127;--ink:#e4e8ec;--soft:#9aa5b1;--line:#363d46;--grid:#262c33;"
    "--candidate:#63a9f7;--baseline:#97a1ad;--band:#2a313a;--good:#5fc47c;--bad:#f4867c;--warn:#dfae4f;--link:#7db6f9";

constexpr std::string_view kSheet = R"css(
*{box-sizing:border-box}
html{background:var(--paper);color:var(--ink);-webkit-text-size-adjust:100%;text-size-adjust:100%}
body{font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;margin:0 auto;padding:2.5rem 1.25rem 4rem;max-width:calc(70ch + 2.5rem)}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .25rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;line-height:1.3;margin:2.75rem 0 .75rem;padding-top:.75rem;border-top:1px solid var(--line)}
p,ul{margin:.6rem 0;overflow-wrap:anywhere}
ul{padding-left:1.25rem}
a{color:var(--link)}
code{font:.9em/1.45 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
code,td,li{unicode-bidi:isolate}
pre{background:var(--panel);border-left:3px solid var(--candidate);border-radius:3px;margin:.75rem 0 .25rem;padding:.6rem .8rem;white-space:pre-wrap;overflow-wrap:anywhere}
.why,.subtitle,figcaption,footer{color:var(--soft);font-size:.9rem}
.why{margin-top:0}
.list-title{margin-bottom:0;font-weight:600}
.list-title+ul{margin-top:.1rem}
.badge{display:inline-block;margin:.6rem 0 0;padding:.15rem .6rem;border:1.5px solid currentColor;border-radius:999px;font-weight:600;font-size:.95rem}
.good,.bad,.warn{font-weight:600}
.good{color:var(--good)}.bad{color:var(--bad)}.warn{color:var(--warn)}
figure{margin:1.25rem 0 .5rem}
figcaption{margin-top:.35rem}
svg{display:block;width:100%;height:auto;overflow:visible}
.scroll{overflow-x:auto;margin:.5rem 0 1rem}
.scroll:focus-visible,summary:focus-visible,a:focus-visible{outline:2px solid var(--link);outline-offset:2px}
table{border-collapse:collapse;font-size:.875rem;line-height:1.4;font-variant-numeric:tabular-nums;min-width:100%}
caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{text-align:left;vertical-align:top;padding:.32rem .9rem .32rem 0;border-bottom:1px solid var(--line)}
th:last-child,td:last-child{padding-right:0}
th{color:var(--soft);font-weight:600;white-space:nowrap}
td{min-width:3.5em;max-width:34em}
.number{text-align:right;white-space:nowrap}
td code{white-space:nowrap}
td code.long{white-space:normal;overflow-wrap:anywhere}
details{margin:.4rem 0 1rem}
summary{cursor:pointer;color:var(--link);font-size:.9rem}
footer{margin-top:3rem;padding-top:.75rem;border-top:1px solid var(--line)}
text{font-size:12.5px;fill:var(--ink)}
text.tick{fill:var(--soft);font-size:12px}
text.strong{font-weight:600}
.grid{stroke:var(--grid)}
.axis{stroke:var(--soft)}
.zero{stroke:var(--soft);stroke-dasharray:3 3}
.band{fill:var(--band)}
circle.candidate,circle.mean{fill:var(--candidate)}
circle.baseline{fill:var(--paper);stroke:var(--baseline);stroke-width:2}
.interval{stroke:var(--soft);stroke-width:1.5}
.decides{stroke:var(--candidate);stroke-width:2.5}
.specks{fill:none;stroke-width:2.2;stroke-linecap:round;opacity:.42}
.specks.candidate{stroke:var(--candidate)}
.specks.baseline{stroke:var(--baseline)}
.box{fill:none;stroke-width:1.3}
.box.candidate{stroke:var(--candidate)}
.box.baseline{stroke:var(--baseline)}
.roof{stroke:var(--ink);stroke-width:1.8}
.ceiling{stroke:var(--ink);stroke-width:2}
.stem{stroke:var(--line);stroke-width:1.5}
.seam,.gain{fill:var(--candidate)}
.kept{fill:var(--candidate);opacity:.35}
.other{fill:var(--baseline);opacity:.55}
.rest{fill:var(--band)}
.zoom{stroke:var(--line)}
.needed{stroke:var(--ink);stroke-width:1.5;stroke-dasharray:3 2}
.seen{stroke:var(--ink);stroke-width:2}
@media (max-width:520px){
body{padding:1.5rem 1rem 3rem}
h1{font-size:1.4rem}
text{font-size:19px}
text.tick{font-size:17px}
}
@media print{
body{max-width:none;padding:0;font-size:10.5pt}
h2{break-after:avoid;margin-top:1.6rem}
figure,tr,pre,svg{break-inside:avoid}
svg{max-width:15.5cm}
a{color:inherit;text-decoration:none}
.scroll{overflow:visible}
table{font-size:8.5pt;min-width:0}
td code{white-space:normal;overflow-wrap:anywhere}
summary{list-style:none;color:var(--soft)}
summary::-webkit-details-marker{display:none}
details::details-content{content-visibility:visible;block-size:auto;opacity:1}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
)css";

std::string style_sheet() {
  return fmt::format(
      "<style>\n:root{{color-scheme:light dark;{}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{}}}}}{}</style>\n", kLight,
      kDark, kSheet);
}

std::string_view class_of(Tone tone) {
  switch (tone) {
    case Tone::good: return "good";
    case Tone::bad: return "bad";
    case Tone::warn: return "warn";
    case Tone::plain:
    case Tone::code: break;
  }
  return {};
}

std::string cell_html(const Cell& cell) {
  constexpr size_t kLong = 16;  // what may break: a whole hash, a path
  std::string text = escape_markup(cell.text);
  if (text.empty()) return text;
  if (cell.tone == Tone::code) text = fmt::format("<code{}>{}</code>", cell.text.size() > kLong ? " class=\"long\"" : "", text);
  if (const auto kind = class_of(cell.tone); !kind.empty()) text = fmt::format("<span class=\"{}\">{}</span>", kind, text);
  return cell.anchor.empty() ? text : fmt::format("<a href=\"#{}\">{}</a>", escape_markup(cell.anchor), text);
}

std::string table_html(const PageTable& table) {
  // Focusable, so that the keyboard can scroll it too.
  std::string text = fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\">\n<table>\n",
                                 escape_markup(table.caption));
  if (!table.folded) text += fmt::format("<caption>{}</caption>\n", escape_markup(table.caption));
  std::vector<const char*> kinds;
  text += "<thead><tr>";
  for (const auto& header : table.headers) {
    const bool number = header.starts_with('>');
    kinds.push_back(number ? " class=\"number\"" : "");
    text += fmt::format("<th scope=\"col\"{}>{}</th>", kinds.back(), escape_markup(number ? header.substr(1) : header));
  }
  text += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    text += "<tr>";
    for (size_t i = 0; i < row.size() && i < kinds.size(); ++i) text += fmt::format("<td{}>{}</td>", kinds[i], cell_html(row[i]));
    text += "</tr>\n";
  }
  return text + "</tbody>\n</table>\n</div>\n";
}

struct Printer {
  std::string operator()(const Paragraph& p) const {
    const auto kind = class_of(p.tone);
    return fmt::format("<p{}>{}</p>\n", kind.empty() ? "" : fmt::format(" class=\"{}\"", kind), escape_markup(p.text));
  }
  std::string operator()(const List& list) const {
    std::string text = fmt::format("<p class=\"list-title\">{}</p>\n<ul>\n", escape_markup(list.title));
    for (const auto& item : list.items) text += fmt::format("<li>{}</li>\n", escape_markup(item));
    return text + "</ul>\n";
  }
  std::string operator()(const CommandBlock& block) const {
    std::string text = fmt::format("<pre><code>{}</code></pre>\n", escape_markup(block.command));
    if (!block.why.empty()) text += fmt::format("<p class=\"why\">{}</p>\n", escape_markup(block.why));
    return text;
  }
  std::string operator()(const PageTable& table) const {
    if (!table.folded) return table_html(table);
    return fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n", escape_markup(table.caption), table_html(table));
  }
  std::string operator()(const Drawing& drawing) const {
    return fmt::format("<figure>\n{}<figcaption>{}</figcaption>\n</figure>\n", drawing.svg, escape_markup(drawing.caption));
  }
};

}  // namespace

std::string page_html(const Page& page) {
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{}</title>\n",
      escape_markup(page.title));
  text += style_sheet() + "</head>\n<body>\n<header>\n";
  text += fmt::format("<h1>{}</h1>\n<p class=\"subtitle\">{}</p>\n", escape_markup(page.title), escape_markup(page.subtitle));
  text += fmt::format("<p class=\"badge {}\">{}</p>\n</header>\n<main>\n", class_of(page.badge.tone), escape_markup(page.badge.text));
  for (const auto& section : page.sections) {
    const std::string id = escape_markup(section.id);
    text += fmt::format("<section id=\"{}\" aria-labelledby=\"{}-title\">\n<h2 id=\"{}-title\">{}</h2>\n", id, id, id,
                        escape_markup(section.title));
    for (const auto& block : section.blocks) text += std::visit(Printer{}, block);
    text += "</section>\n";
  }
  return text + fmt::format("</main>\n<footer>{}</footer>\n</body>\n</html>\n", escape_markup(page.footer));
}

}  // namespace kl
