// What the seams are called with in one step: of each seam and shape the first call of every operation, as files
// that verify can judge a kernel by.
#pragma once

#include <lab/target/target.hpp>
#include <trainer/prepared_call.hpp>
#include <trainer/seam_table.hpp>

#include <cstddef>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace kl::trainer {

class TensorLog {
 public:
  static Result<TensorLog> create(const Config& config);

  // Before the call: the tensors as they are now. An operation's own site is that of the first call at its shape,
  // so that forward and backward are those of one place.
  void add(Seam seam, int operation, int site, std::initializer_list<const void*> inputs, std::initializer_list<void*> outputs);

  // FOLDER/SEAM.K.safetensors for the K-th shape of each seam: inputs by their names in the target's spec, packed;
  // `before/OPERATION/NAME` holds what an output that is added to or changed had before. Metadata: target, seam and
  // shape (one of `kernel-lab-train seams`). Returns the files.
  Result<std::vector<std::filesystem::path>> write(const std::filesystem::path& folder);

  static TensorLog* current() { return current_; }  // of the step that is recorded now, or null

 private:
  friend class TensorRecording;
  struct Kept {
    std::vector<int64_t> shape;
    std::string dtype;
    std::vector<std::byte> bytes;
  };
  struct Place {
    SeamCalls calls;
    std::vector<CallForm> forms;        // by operation
    int site = -1;
    std::vector<bool> seen;             // by operation
    std::map<std::string, Kept> kept;
  };
  struct Entry {
    Target target;
    std::vector<Place> places;
  };
  static void keep(Place& place, const std::string& name, const TensorForm& form, const void* data);

  static inline TensorLog* current_ = nullptr;
  std::map<Seam, Entry> entries_;
};

// While it lives, calls are recorded in `log`; null: nowhere.
class TensorRecording {
 public:
  explicit TensorRecording(TensorLog* log) { TensorLog::current_ = log; }
  ~TensorRecording() { TensorLog::current_ = nullptr; }
  TensorRecording(const TensorRecording&) = delete;
  TensorRecording& operator=(const TensorRecording&) = delete;
};

}  // namespace kl::trainer
