#include <lab/trace/mangled_name.hpp>

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <memory>
#include <vector>

namespace kl::trace {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

// Each reference to an earlier part may stand for all the text before it: r of them make up to 3^(r/3) times as much.
constexpr size_t kLongest = 4096, kMostReferences = 30;

bool bounded(std::string_view name) {
  size_t references = 0;
  for (size_t i = 0; i + 1 < name.size(); ++i) {
    const char next = name[i + 1];
    if ((name[i] == 'S' || name[i] == 'T') && (next == '_' || digit(next) || (next >= 'A' && next <= 'Z'))) ++references;
  }
  return name.size() <= kLongest && references <= kMostReferences;
}

// Reads the name's identifiers, template arguments and literals; leaves out references to earlier parts, and the parameters.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::string read() {
    while (at_ < text_.size() && !complete()) step();
    while (!open_.empty()) close();
    return std::move(out_);
  }

 private:
  // N a name, I template arguments, J a pack of them, L a literal, Z the function around a local name; what is in X, F and U
  // (an expression, a function's type, a lambda's parameters) is not written.
  struct Open {
    char kind;
    bool first;           // nothing written in it yet
    bool silent = false;  // nothing more is to be
    bool read = false;    // of a literal its type, of a function its name
  };

  char here(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  char within() const { return open_.empty() ? '\0' : open_.back().kind; }
  // The parameters follow.
  bool complete() const { return named_ && open_.empty() && here() != 'I' && here() != 'B' && !local_; }

  size_t number() {
    size_t value = 0;
    for (; digit(here()); ++at_) value = std::min<size_t>(value * 10 + static_cast<size_t>(here() - '0'), text_.size());
    return value;
  }
  std::string_view source_name() {
    const size_t length = number();
    const std::string_view name = text_.substr(at_, length);
    at_ += name.size();
    return name;
  }
  void sequence_number() {  // "0_", "1A_", "_"
    while (digit(here()) || (here() >= 'A' && here() <= 'Z')) ++at_;
    if (here() == '_') ++at_;
  }

  void separate() {
    if (local_) out_ += "::";
    else if (!open_.empty() && !open_.back().first) out_ += within() == 'N' ? "::" : ", ";
    if (!open_.empty()) open_.back().first = false;
    local_ = false;
  }
  void write(std::string_view text) {
    if (silent_ > 0 || text.empty()) return;
    separate();
    out_ += text;
  }

  void open(char kind) {
    ++at_;
    bool first = true;
    if (kind == 'J' || kind == 'L') first = open_.empty() || open_.back().first;  // what is in it joins what is around it
    // A name's first identifier follows without a mark of its own; a local one's is joined to its function.
    if (kind == 'N' && !open_.empty() && within() != 'N' && !local_ && silent_ == 0) separate();
    if (kind == 'I' && silent_ == 0) out_ += '<';
    open_.push_back({kind, first});
    if (kind == 'X' || kind == 'F' || kind == 'U' || kind == 'L') silence();
  }
  void silence() {
    open_.back().silent = true;
    ++silent_;
  }
  void close() {
    const Open closed = open_.back();
    open_.pop_back();
    if (closed.silent) --silent_;
    if (closed.kind == 'I' && silent_ == 0) out_ += '>';
    if (closed.kind == 'U') sequence_number();
    if (closed.kind == 'Z') local_ = true;
    if ((closed.kind == 'J' || closed.kind == 'L') && !open_.empty()) open_.back().first = open_.back().first && closed.first;
    if (closed.kind == 'N' || closed.kind == 'U') read_one();
    named_ = named_ || closed.kind == 'N';
  }

  // A type or a name has been read.
  void read_one() {
    if (within() == 'L' && open_.back().silent) {
      open_.back().silent = false;
      --silent_;
    }
    if (within() == 'L' || within() == 'Z') open_.back().read = true;
    if (open_.empty()) named_ = true;
  }

  void identifier() {
    const std::string_view name = source_name();
    write(name.starts_with("_GLOBAL__N") ? "(anonymous namespace)" : name);
    read_one();
  }

  void literal_value() {
    const size_t end = std::min(text_.find('E', at_), text_.size());
    const std::string_view value = text_.substr(at_, end - at_);
    if (boolean_ && (value == "0" || value == "1")) write(value == "1" ? "true" : "false");
    else if (!value.empty() && std::all_of(value.begin(), value.end(), digit)) write(value);
    at_ = end;
    boolean_ = false;
  }

  void step() {
    const char c = here();
    if (within() == 'L' && open_.back().read && c != 'E') return literal_value();
    if (within() == 'Z' && open_.back().read && !open_.back().silent && c != 'I' && c != 'E') silence();
    if (digit(c)) return identifier();
    const char next = here(1);
    switch (c) {
      case 'N': case 'I': case 'J': case 'X': case 'F': case 'Z': return open(c);
      case 'L':
        if (within() == 'I' || within() == 'J') return open(c);
        break;  // of internal linkage
      case 'E':
        ++at_;
        if (!open_.empty()) close();
        return;
      case 'S':
        if (next >= 'a' && next <= 'z') {
          if (next == 't') write("std");
          at_ += 2;
        } else {
          ++at_;
          sequence_number();
        }
        return read_one();
      case 'T':
        ++at_;
        sequence_number();
        return read_one();
      case 'U':
        if (next == 't') {
          at_ += 2;
          return sequence_number();
        }
        if (next != 'l') break;
        write("{lambda()}");
        ++at_;
        return open(c);
      case 'A':
        ++at_;
        return sequence_number();
      case 'B':
        ++at_;
        source_name();
        return;
      case 'C':
        at_ += 2;
        return;
      case 'D':
        at_ += 2;
        if (next == 't' || next == 'T') return --at_, open('X');
        if (next == 'F' || next == 'v') {
          number();
          ++at_;
        }
        return read_one();
      case 'b': boolean_ = within() == 'L'; break;
      default: break;
    }
    ++at_;
    if (c >= 'a' && c <= 'z' && c != 'r') {
      if (within() != 'N' && !open_.empty()) read_one();
    }
  }

  std::string_view text_;
  size_t at_ = 2;  // behind _Z
  std::string out_;
  std::vector<Open> open_;
  int silent_ = 0;     // how many of those are
  bool named_ = false, boolean_ = false;
  bool local_ = false;  // a local name follows its function
};

// In one pass, as every name is.
std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string result;
  for (size_t from = 0;;) {
    const size_t at = text.find(what, from);
    result += text.substr(from, at - from);
    if (at == std::string_view::npos) return result;
    result += with;
    from = at + what.size();
  }
}

}  // namespace

std::string demangle(std::string_view name) {
  if (!name.starts_with("_Z")) return std::string(name);
  // bfloat16 is newer than the C++ library's table of types; char16_t stands in for it.
  if (const std::string known = replaced(name, "DF16b", "Ds"); bounded(known)) {
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(known.c_str(), nullptr, nullptr, &status), &std::free);
    if (text != nullptr && status == 0) return replaced(text.get(), "char16_t", "__bf16");
  }
  return Reader(name).read();
}

}  // namespace kl::trace
