// The event stream: one JSON object a line, appended and flushed line by line.
#pragma once

#include <lab/core/json.hpp>

#include <filesystem>

namespace kl::trainer {

class EventStream {
 public:
  EventStream() = default;  // swallows everything
  static Result<EventStream> append_to(const std::filesystem::path& path);
  EventStream(EventStream&& other) noexcept;
  EventStream& operator=(EventStream&& other) noexcept;
  ~EventStream();
  // Adds `event` and `t_ns`. A full disk or a closed pipe is an error: a run that nobody can read
  // must not go on.
  Outcome write(std::string_view event, Json fields) const;

 private:
  int file_ = -1;
  std::filesystem::path path_;
};

}  // namespace kl::trainer
