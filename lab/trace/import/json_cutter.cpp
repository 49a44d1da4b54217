#include <lab/trace/import/json_cutter.hpp>

#include <lab/trace/import/json_text.hpp>

#include <fmt/format.h>

#include <vector>

namespace kl::trace {
namespace {

constexpr size_t kChunk = size_t{1} << 20;
constexpr size_t kLargestPart = size_t{64} << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

class Cutter {
 public:
  Cutter(ByteStream& bytes, const JsonParts& parts) : bytes_(bytes), parts_(parts), buffer_(kChunk) {}

  std::string run() {
    if (more() && text().starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    value("", parts_.choose(""));
    return failure_;
  }

 private:
  std::string_view text() const { return {buffer_.data(), end_}; }
  bool failed() const { return !failure_.empty(); }
  void fail(std::string_view what) {
    if (!failed()) failure_ = fmt::format("{} at byte {}", what, before_ + static_cast<int64_t>(at_));
  }

  // Drops what lies before at_ and reads on; false at the end of the file.
  bool more() {
    std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
    before_ += static_cast<int64_t>(at_);
    end_ -= at_;
    at_ = 0;
    if (end_ == buffer_.size()) {
      if (end_ >= kLargestPart) {
        fail(fmt::format("one value is longer than {} MB", kLargestPart >> 20));
        return false;
      }
      buffer_.resize(2 * buffer_.size());
    }
    const size_t got = bytes_.read(buffer_.data() + end_, buffer_.size() - end_);
    end_ += got;
    if (got == 0) fail(bytes_.broken().empty() ? "the file ends inside a value" : bytes_.broken());
    return got > 0;
  }

  // The next character that is no space; 0 when there is none.
  char peek() {
    for (;;) {
      at_ = json_skip_space(text(), at_);
      if (at_ < end_) return buffer_[at_];
      if (!more()) return 0;
    }
  }
  bool expect(char wanted) {
    if (peek() != wanted) {
      fail(fmt::format("'{}' is missing", wanted));
      return false;
    }
    ++at_;
    return true;
  }

  void value(const std::string& path, Cut cut) {
    const char first = peek();
    if (failed()) return;
    if (cut == Cut::take) return take(path);
    if (cut == Cut::enter && first == '{') return object(path);
    if (cut == Cut::enter && first == '[') return array(path);
    int depth = 0;
    const int64_t begin = before_ + static_cast<int64_t>(at_);
    while (!json_skip_value(text(), at_, depth))
      if (!more()) return;
    if (before_ + static_cast<int64_t>(at_) == begin) fail("a value is missing");
  }

  void take(const std::string& path) {
    for (;;) {
      size_t end = at_;
      int depth = 0;
      if (json_skip_value(text(), end, depth)) {
        if (end == at_) return fail("a value is missing");
        parts_.part(path, text().substr(at_, end - at_));
        at_ = end;
        return;
      }
      if (!more()) return;
    }
  }

  void object(const std::string& path) {
    ++at_;
    if (peek() == '}') {
      ++at_;
      return;
    }
    while (!failed()) {
      if (peek() != '"') return fail("a member's name is missing");
      size_t end = 0;
      while ((end = json_string_end(text(), at_)) == std::string_view::npos)
        if (!more()) return;
      std::string member = path;
      member.append("/").append(text().substr(at_ + 1, end - at_ - 2));
      at_ = end;
      if (!expect(':')) return;
      value(member, parts_.choose(member));
      if (failed() || !another('}')) return;
    }
  }

  void array(const std::string& path) {
    ++at_;
    if (peek() == ']') {
      ++at_;
      return;
    }
    const std::string element = path + "/*";
    const Cut cut = parts_.choose(element);
    do value(element, cut);
    while (!failed() && another(']'));
  }

  // Behind a value: another one follows, or the list closes.
  bool another(char close) {
    const char next = peek();
    if (next == ',' || next == close) ++at_;
    else fail(fmt::format("neither ',' nor '{}'", close));
    return next == ',';
  }

  ByteStream& bytes_;
  const JsonParts& parts_;
  std::vector<char> buffer_;
  size_t at_ = 0, end_ = 0;  // what is yet to be read
  int64_t before_ = 0;       // bytes of the file before the buffer
  std::string failure_;
};

}  // namespace

std::string cut_json(ByteStream& bytes, const JsonParts& parts) { return Cutter(bytes, parts).run(); }

}  // namespace kl::trace
