#include <lab/flow/signature.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

namespace kl {
namespace {

bool is_word_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool starts_with_digit(const std::string& word) { return word.find_first_of("0123456789") == 0; }

// Words that would not compile as names in the files written from a signature.
constexpr std::array kTaken = {
    "alignas", "and",    "asm",    "auto",   "bool",   "break",    "case",   "catch",   "char",
    "class",   "const",  "double", "do",     "default", "delete",  "else",   "enum",    "explicit",
    "extern",  "false",  "float",  "for",    "friend", "goto",     "if",     "inline",  "int",
    "long",    "new",    "namespace", "not", "operator", "or",     "private", "public", "register",
    "return",  "short",  "signed", "sizeof", "static", "struct",   "switch", "template", "this",
    "throw",   "true",   "try",    "typedef", "union", "unsigned", "using",  "virtual", "void",
    "volatile", "while", "xor",    "call",   "kl",     "plan",     "size",   "sum",     "table",
    "R",       "Plan",   "run",    "forward", "backward"};

class SignatureReader {
 public:
  explicit SignatureReader(std::string_view text) : text_(text) {}

  Result<std::vector<OperationSpec>> read() {
    OperationSpec forward;
    forward.name = "forward";
    KL_CHECK(read_outputs(forward));
    KL_TRY([[maybe_unused]] const std::string name, word("the operation's name"));
    KL_CHECK(expect('('));
    KL_CHECK(read_inputs(forward));
    skip_space();
    if (at_ < text_.size()) return problem(fmt::format("'{}' after the end", text_.substr(at_)));
    if (forward.inputs.empty()) return problem("no input with axes");
    if (axes_.empty()) return problem("no axis with a name");
    KL_TRY(OperationSpec backward, backward_of(forward));
    return std::vector<OperationSpec>{std::move(forward), std::move(backward)};
  }

 private:
  Outcome read_outputs(OperationSpec& forward) {
    do {
      KL_TRY(const std::string name, fresh_name("an output"));
      KL_TRY(TensorSpec output, tensor(name));
      forward.outputs.push_back(std::move(output));
    } while (take(','));
    return expect('=');
  }

  Outcome read_inputs(OperationSpec& forward) {
    do {
      KL_TRY(const std::string name, fresh_name("an input"));
      if (peek() != '[') {
        forward.scalars.push_back({name, 1});
        continue;
      }
      KL_TRY(TensorSpec input, tensor(name));
      forward.inputs.push_back(std::move(input));
    } while (take(','));
    return expect(')');
  }

  Result<TensorSpec> tensor(const std::string& name) {
    TensorSpec result;
    result.name = name;
    KL_CHECK(expect('['));
    do {
      KL_TRY(const std::string axis, word("an axis"));
      const bool constant = starts_with_digit(axis);
      if (constant && (axis.starts_with('0') || axis.size() > 9 ||
                       axis.find_first_not_of("0123456789") != std::string::npos))
        return problem_at_word(fmt::format("'{}' is neither an axis nor a length", axis));
      if (std::find(result.axes.begin(), result.axes.end(), axis) != result.axes.end())
        return problem_at_word(fmt::format("axis {} twice in {}: give the second a name of its own", axis, name));
      if (!constant) {
        KL_CHECK(not_taken(axis));
        if (names_.contains(axis)) return problem_at_word(fmt::format("'{}' is a tensor and an axis", axis));
        axes_.insert(axis);
      }
      result.axes.push_back(axis);
    } while (take(','));
    KL_CHECK(expect(']'));
    return result;
  }

  Result<OperationSpec> backward_of(const OperationSpec& forward) {
    OperationSpec backward;
    backward.name = "backward";
    backward.index = 1;
    backward.scalars = forward.scalars;
    const auto gradient = [&](const TensorSpec& tensor) -> Result<TensorSpec> {
      TensorSpec result = tensor;
      result.name = "d" + tensor.name;
      if (names_.contains(result.name) || axes_.contains(result.name))
        return problem(fmt::format("'{}' is the gradient of {} in backward", result.name, tensor.name));
      return result;
    };
    for (const auto& output : forward.outputs) {
      KL_TRY(TensorSpec incoming, gradient(output));
      backward.inputs.push_back(std::move(incoming));
    }
    for (const auto& input : forward.inputs) {
      backward.inputs.push_back(input);
      KL_TRY(TensorSpec outgoing, gradient(input));
      backward.outputs.push_back(std::move(outgoing));
    }
    return backward;
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char wanted) {
    if (peek() != wanted) return false;
    ++at_;
    return true;
  }
  Outcome expect(char wanted) {
    if (take(wanted)) return {};
    return problem(at_ < text_.size() ? fmt::format("'{}' instead of '{}'", text_[at_], wanted)
                                      : fmt::format("'{}' is missing", wanted));
  }
  Result<std::string> word(std::string_view what) {
    skip_space();
    word_at_ = at_;
    while (at_ < text_.size() && is_word_char(text_[at_])) ++at_;
    if (at_ == word_at_) return problem(fmt::format("{} is missing", what));
    return std::string(text_.substr(word_at_, at_ - word_at_));
  }
  Result<std::string> fresh_name(std::string_view what) {
    KL_TRY(const std::string name, word(what));
    if (starts_with_digit(name))
      return problem_at_word(fmt::format("the name '{}' starts with a digit", name));
    KL_CHECK(not_taken(name));
    if (axes_.contains(name)) return problem_at_word(fmt::format("'{}' is a tensor and an axis", name));
    if (!names_.insert(name).second) return problem_at_word(fmt::format("'{}' twice", name));
    return name;
  }
  Outcome not_taken(const std::string& name) const {
    if (std::find(kTaken.begin(), kTaken.end(), name) == kTaken.end() && !name.ends_with('_') &&
        name.find("__") == std::string::npos)
      return {};
    return problem_at_word(fmt::format("'{}' cannot be a name in C++ here", name));
  }

  Error problem(std::string what) const { return problem_at(at_, std::move(what)); }
  Error problem_at_word(std::string what) const { return problem_at(word_at_, std::move(what)); }
  Error problem_at(size_t at, std::string what) const {
    return make_error(Status::usage, fmt::format("--from '{}', column {}: {}", text_, at + 1, what),
                      "write it as \"y[N,C] = f(x[N,C], w[C], eps)\": outputs, a name, inputs with their axes, scalars");
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t word_at_ = 0;
  std::set<std::string> names_, axes_;
};

}  // namespace

Result<std::vector<OperationSpec>> operations_of_signature(std::string_view text) {
  return SignatureReader(text).read();
}

}  // namespace kl
