#include "man_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kl::app {
namespace {

std::string troff(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else if (c == '\'')
      result += "\\(aq";
    else if (c == '|')
      result += "|\\:";  // a long list of choices may break here
    else
      result += c;
  }
  // A dot first would be a request.
  return result.starts_with('.') ? "\\&" + result : result;
}

std::string flag_text(const FlagLine& flag) {
  std::vector<std::string> names;
  for (const auto& name : flag.names)
    names.push_back(flag.positional ? fmt::format("\\fI{}\\fR", troff(name)) : fmt::format("\\fB{}\\fR", troff(name)));
  std::string line = fmt::format("{}", fmt::join(names, ", "));
  if (flag.takes_value() && !flag.positional)
    line += fmt::format(" \\fI{}\\fR", troff(flag.choices.empty() ? flag.type : fmt::format("{}", fmt::join(flag.choices, "|"))));
  return fmt::format(".TP\n{}\n{}{}\n", line, troff(flag.text), flag.required ? " (required)" : "");
}

std::string verb_text(const VerbLine& verb, const std::string& before) {
  std::string text = fmt::format(".SS {}{}\n{}\n", troff(before), troff(verb.name), troff(verb.summary));
  for (const auto& flag : verb.flags) text += flag_text(flag);
  if (!verb.examples.empty()) {
    text += ".PP\n.nf\n";
    for (const auto& example : verb.examples) text += fmt::format(".RS\n{}\n.RE\n", troff("kernel-lab " + example));
    text += ".fi\n";
  }
  for (const auto& own : verb.verbs) text += verb_text(own, before + verb.name + " ");
  return text;
}

}  // namespace

std::string man_page(const FlagTable& table) {
  std::string text = fmt::format(R"('\" -*- coding: UTF-8 -*-
.TH KERNEL\-LAB 1 "" "kernel-lab {}" "Kernel Lab"
.ad l
.nh
.SH NAME
kernel\-lab \- does this low\-level kernel earn a place in a real training run?
.SH SYNOPSIS
.B kernel\-lab
[\fIglobal flags\fR] \fIverb\fR [\fIflags\fR]
.SH DESCRIPTION
A workspace holds one kernel file, made from a target by \fBinit\fR. \fBverify\fR says whether it is right, \fBbench\fR
whether it is faster, \fBintegration\-ab\fR whether the trainer gets faster, and \fBpromote\fR makes it the champion.
Every answer is a record (\fB\-\-json\fR) and stays in a ledger.
.SH GLOBAL FLAGS
)", kLabVersion);
  for (const auto& flag : table.global) text += flag_text(flag);
  text += ".SH VERBS\n";
  for (const auto& verb : table.verbs) text += verb_text(verb, "");
  return text + R"(.SH EXIT STATUS
.TP
0
done; of a verdict: positive
.TP
1
internal error
.TP
2
usage, or a workspace or target that cannot be used
.TP
3
negative verdict: wrong, slower, refused, or it does not build or survive
.TP
4
inconclusive
.TP
5
unavailable here: a tool, device or permission is missing
.SH ENVIRONMENT
.TP
KERNEL_LAB_CACHE
folder of compiled libraries (default $XDG_CACHE_HOME/kernel\-lab, else ~/.cache/kernel\-lab)
.TP
KERNEL_LAB_HOME
installation to use, instead of the one the program lies in
.TP
NO_COLOR
no colours on a terminal
.SH FILES
.TP
results/kernel_lab/ledger.jsonl
the ledger, under the repository or the working directory; sources and samples lie beside it
.TP
targets/
searched for targets, after those of \fB\-\-targets\fR and before the installation's
)";
}

}  // namespace kl::app
