#include <lab/trace/kernel_name.hpp>

#include <lab/trace/mangled_name.hpp>

#include <algorithm>
#include <array>

namespace kl::trace {
namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)";

bool digit(char c) { return c >= '0' && c <= '9'; }
bool lower(char c) { return c >= 'a' && c <= 'z'; }
bool upper(char c) { return c >= 'A' && c <= 'Z'; }
bool alphanumeric(char c) { return digit(c) || lower(c) || upper(c); }
bool in_word(char c) { return alphanumeric(c) || c == '_' || c == '$' || c == '.' || c == '%' || static_cast<unsigned char>(c) >= 0x80; }

std::string_view trimmed(std::string_view text) {
  const size_t from = text.find_first_not_of(" \t\r\n\"");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r\n\"") - from + 1);
}

// ".kd" of AMD's kernel descriptors, and what compilers append to copies of a function (".isra.0", ".constprop.3").
std::string_view without_clone_suffixes(std::string_view name) {
  constexpr std::array kMarks = {".kd", ".isra", ".constprop", ".part", ".cold", ".llvm", ".clone", ".lto_priv"};
  for (;;) {
    const size_t end = name.find_last_not_of("0123456789.");
    if (end == std::string_view::npos) return name;
    const std::string_view stem = name.substr(0, end + 1);
    const auto mark = std::find_if(kMarks.begin(), kMarks.end(), [&](std::string_view m) { return stem.ends_with(m); });
    if (mark == kMarks.end()) return name;
    name = stem.substr(0, stem.size() - std::string_view(*mark).size());
  }
}

// CUB_200200_700_800_NS, ROCPRIM_400200_NS, __1: inline namespaces that name a version.
bool names_a_version(std::string_view word) {
  if (word == "__1" || word == "__cxx11") return true;
  return word.ends_with("_NS") && std::any_of(word.begin(), word.end(), digit) && std::none_of(word.begin(), word.end(), lower);
}

bool says_nothing(std::string_view word) {
  constexpr std::array kWords = {"const",        "volatile", "static", "inline",   "extern", "__global__",
                                 "__restrict__", "struct",   "class",  "typename", "enum",   "__launch_bounds__"};
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

// For each opening bracket the place of the one that closes it; text.size() where none does.
std::vector<size_t> closings(std::string_view text) {
  std::vector<size_t> closing(text.size(), text.size()), open;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '(' || c == '[' || c == '{') open.push_back(i);
    if (c != ')' && c != ']' && c != '}') continue;
    const char opens = c == ')' ? '(' : c == ']' ? '[' : '{';
    if (open.empty() || text[open.back()] != opens) continue;
    closing[open.back()] = i;
    open.pop_back();
  }
  return closing;
}

class Normaliser {
 public:
  explicit Normaliser(std::string_view text) : text_(text), closing_(closings(text)) {}

  std::string run() {
    while (at_ < text_.size()) step();
    return std::move(out_);
  }

 private:
  enum class Last : uint8_t { nothing, word, opening, comma, other };

  bool next_is(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  char after_spaces(size_t at) const {
    at = std::min(text_.find_first_not_of(' ', at), text_.size());
    return at < text_.size() ? text_[at] : '\0';
  }
  void skip_group() { at_ = std::min(closing_[at_] + 1, text_.size()); }

  void word(std::string_view text) {
    if (last_ == Last::word) out_ += ' ';
    if (last_ == Last::comma) out_ += ' ';
    out_ += text;
    last_ = Last::word;
  }
  void mark(char c) {
    if (last_ == Last::comma) out_ += ' ';
    out_ += c;
    last_ = c == ',' ? Last::comma : c == '<' ? Last::opening : Last::other;
    if (c == '<') ++depth_;
    if (c == '>') depth_ = std::max(depth_ - 1, 0);
  }

  void step() {
    const char c = text_[at_];
    if (next_is(kAnonymous)) return named(kAnonymous.size());
    if (next_is("<unnamed>")) return named(9);
    if (next_is("[lambda(") || next_is("{lambda(") || next_is("'lambda")) return lambda();
    if (next_is("[with ")) return void(at_ = text_.size());
    if (c == '[') return skip_group();  // [abi:cxx11], [clone .isra.0]
    if (c == '{') return raw_group();
    if (c == '(') return parenthesis();
    if (in_word(c)) return identifier();
    if (next_is("->")) return void(at_ += 2);
    ++at_;
    if (c == ' ' || c == ')' || c == ']' || c == '}' || static_cast<unsigned char>(c) < ' ') return;
    if (c == '-' && depth_ == 0 && last_ == Last::word) return hyphen();
    mark(c);
  }

  void named(size_t size) {
    at_ += size;
    word(kAnonymous);
  }

  // "copy-start.1": names that are not C++'s.
  void hyphen() {
    out_ += '-';
    last_ = Last::other;
  }

  void raw_group() {
    const size_t end = std::min(closing_[at_] + 1, text_.size());
    word(text_.substr(at_, end - at_));
    at_ = end;
  }

  // {lambda(float)#3}, [lambda(float) (instance 3)] and LLVM's 'lambda1'(float).
  void lambda() {
    const char bracket = text_[at_];
    const size_t end = bracket == '\'' ? text_.size() : closing_[at_];
    std::string number = "1";
    size_t list = at_ + std::string_view("{lambda").size();
    if (bracket == '\'') {
      const size_t quote = text_.find('\'', at_ + 1);
      if (quote == std::string_view::npos) return void(++at_);
      const std::string_view counted = text_.substr(at_ + 7, std::min<size_t>(quote - at_ - 7, 6));
      if (!counted.empty() && std::all_of(counted.begin(), counted.end(), digit)) number = std::to_string(std::stol(std::string(counted)) + 2);
      list = quote + 1 < text_.size() && text_[quote + 1] == '(' ? quote + 1 : text_.size();
      if (list == text_.size()) {
        word("{lambda()#" + number + "}");
        at_ = quote + 1;
        return;
      }
    }
    const size_t list_end = closing_[list];
    if (list_end >= text_.size() || end > text_.size()) {  // unbalanced
      at_ = text_.size();
      return word("{lambda()}");
    }
    if (bracket != '\'') {
      const std::string_view rest = end > list_end ? text_.substr(list_end + 1, end - list_end - 1) : std::string_view();
      const size_t from = std::min(rest.find_first_of("0123456789"), rest.size());
      const size_t to = std::min(rest.find_first_not_of("0123456789", from), rest.size());
      if (to > from) number = rest.substr(from, to - from);
    }
    std::string text = "{lambda(";
    for (size_t i = list + 1; i < list_end; ++i)
      if (text_[i] != ' ' || (in_word(text_[i - 1]) && in_word(text_[i + 1]))) text += text_[i];
    word(text + ")#" + number + "}");
    at_ = std::min((bracket == '\'' ? list_end : end) + 1, text_.size());
  }

  void parenthesis() {
    const size_t end = closing_[at_];
    const bool argument = depth_ > 0 && (last_ == Last::opening || last_ == Last::comma);
    const bool cast = argument && end < text_.size() && (alphanumeric(after_spaces(end + 1)) || after_spaces(end + 1) == '-');
    boolean_ = cast && text_.substr(at_, end - at_) == "(bool";
    skip_group();
  }

  void identifier() {
    size_t end = at_;
    while (end < text_.size() && in_word(text_[end])) ++end;
    std::string_view name = text_.substr(at_, end - at_);
    at_ = end;
    if (says_nothing(name)) return;
    if (name == "void" && returns()) return;
    if (name == "operator") return operator_name();
    if (digit(name.front())) return number(name);
    const bool qualifies = text_.substr(at_, 2) == "::";
    if (qualifies && names_a_version(name)) return void(at_ += 2);
    if (name.starts_with("_GLOBAL__N_") || name.starts_with("_INTERNAL_")) return word(kAnonymous);
    word(without_clone_suffixes(name));
  }

  // As the type before a name; `void` alone is an argument.
  bool returns() const {
    const char next = after_spaces(at_);
    return alphanumeric(next) || next == '_' || next == '(' || text_.substr(std::min(text_.find_first_not_of(' ', at_), text_.size())).starts_with("<unnamed>");
  }

  void number(std::string_view digits) {
    const size_t end = digits.find_first_not_of("0123456789");
    const bool suffixed = end != std::string_view::npos && digits.find_first_not_of("uUlLzZ", end) == std::string_view::npos;
    if (suffixed) digits = digits.substr(0, end);
    if (boolean_ && (digits == "0" || digits == "1")) digits = digits == "1" ? "true" : "false";
    boolean_ = false;
    word(digits);
  }

  void operator_name() {
    std::string name = "operator";
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    while (at_ < text_.size() && std::string_view("<>=!+-*/%&|^~[],").find(text_[at_]) != std::string_view::npos && name.size() < 11)
      name += text_[at_++];
    if (name == "operator" && next_is("()")) {
      name += "()";
      at_ += 2;
    }
    word(name);
  }

  std::string_view text_;
  std::vector<size_t> closing_;
  size_t at_ = 0;
  std::string out_;
  Last last_ = Last::nothing;
  int depth_ = 0;         // of template arguments
  bool boolean_ = false;  // the number that follows was cast to bool
};

}  // namespace

std::string normalise_kernel_name(std::string_view name) {
  const std::string plain = demangle(without_clone_suffixes(trimmed(name)));
  return Normaliser(plain).run();
}

NamePart::NamePart(std::string_view path, int depth) : depth_(depth) {
  char before = '\0';  // '\0': no letter
  for (size_t i = 0; i < path.size(); ++i) {
    const char c = path[i];
    if (!alphanumeric(c)) {
      before = '\0';
      continue;
    }
    const char after = i + 1 < path.size() ? path[i + 1] : '\0';
    const bool begins = before == '\0' || digit(before) != digit(c) || (lower(before) && upper(c)) || (upper(before) && upper(c) && lower(after));
    folded_ += upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
    begins_.push_back(begins);
    before = c;
  }
  begins_.push_back(true);
}

bool NamePart::has(std::string_view word) const {
  const bool within = word.starts_with('*'), open = word.ends_with('*');
  word.remove_prefix(within ? 1 : 0);
  if (word.empty()) return true;
  word.remove_suffix(open ? 1 : 0);
  for (size_t at = folded_.find(word); at != std::string::npos; at = folded_.find(word, at + 1))
    if ((within || begins_[at]) && (open || begins_[at + word.size()])) return true;
  return false;
}

std::vector<NamePart> parts_of(std::string_view normalised) {
  std::vector<NamePart> parts;
  int depth = 0, braces = 0;
  std::string path;
  const auto finish = [&] {
    if (std::any_of(path.begin(), path.end(), [](char c) { return lower(c) || upper(c); })) parts.emplace_back(path, depth);
    path.clear();
  };
  for (const char c : normalised) {
    braces += c == '{' ? 1 : c == '}' && braces > 0 ? -1 : 0;
    if (braces > 0 || c == '}') continue;
    if (c != '<' && c != '>' && c != ',' && c != ' ') {
      path += c;
      continue;
    }
    finish();
    depth += c == '<' ? 1 : c == '>' && depth > 0 ? -1 : 0;
  }
  finish();
  std::stable_sort(parts.begin(), parts.end(), [](const NamePart& a, const NamePart& b) { return a.depth() > b.depth(); });
  return parts;
}

}  // namespace kl::trace
