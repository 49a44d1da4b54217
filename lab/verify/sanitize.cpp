#include <lab/verify/sanitize.hpp>

#include <lab/build/builder.hpp>
#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/process.hpp>
#include <lab/verify/oracle_run.hpp>

#include <fmt/format.h>

namespace kl {

namespace {

constexpr int kObjected = 86;                // exit code given to the sanitizers
constexpr int64_t kSmallElements = 1 << 16;  // instrumented kernels are slow

struct Sanitizer {
  std::string name;  // as the builder calls it
  std::string rule;
  std::string preload;  // run-time library that must come first; empty: none
};

int64_t volume(const CaseGroup& group) {
  int64_t product = 1;
  for (const auto& [axis, length] : group.axes) product *= length;
  return product;
}

// Shapes as JSON, contents behind one another in a blob.
class CaseFile {
 public:
  Outcome add(const Target& target, const CaseGroup& group, uint64_t seed) {
    const Case& item = group.cases.front();
    KL_TRY(const CaseData data, draw_case(target, group, item, case_seed(seed, group, item)));
    Json operations = Json::array();
    for (const OperationData& operation : data.operations)
      operations.push_back({{"index", operation.spec->index},
                            {"scalars", operation.scalars},
                            {"inputs", tensors(operation.inputs)},
                            {"outputs", tensors(operation.outputs)}});
    cases_.push_back({{"name", group.name()}, {"operations", operations}});
    return {};
  }
  Outcome write(const fs::path& folder, std::string_view target) const {
    KL_CHECK(write_file_atomic(folder / "cases.bin", blob_));
    return write_file_atomic(folder / "cases.json",
                             dump_line(Json{{"target", target}, {"cases", cases_}}));
  }
  int64_t count() const { return static_cast<int64_t>(cases_.size()); }

 private:
  Json tensors(const std::vector<TensorData>& list) {
    Json result = Json::array();
    for (const TensorData& tensor : list) {
      result.push_back({{"name", tensor.name},
                        {"code", tensor.dtype.code},
                        {"bits", tensor.dtype.bits},
                        {"shape", tensor.shape},
                        {"offset", blob_.size()},
                        {"given", tensor.bytes.size()}});
      blob_.append(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
    }
    return result;
  }
  Json cases_ = Json::array();
  std::string blob_;
};

// The compiler knows where its run-time is; empty when it is not installed.
std::string runtime_library(const std::string& name) {
  const auto asked =
      run_process({.arguments = {"c++", "-print-file-name=" + name}, .timeout_seconds = 20});
  if (!asked.ok() || !asked->ok()) return {};
  std::string path = asked->out.substr(0, asked->out.find('\n'));
  return fs::path(path).is_absolute() && fs::exists(path) ? path : std::string();
}

std::string first_lines(const std::string& text) {
  constexpr size_t kShown = 1200;
  const size_t start = std::min(text.find("ERROR:"), text.find("runtime error:"));
  return text.substr(start == std::string::npos ? 0 : start, kShown);
}

SanitizeReport not_run(Status status, std::string why) { return {status, "", std::move(why), 0}; }

SanitizeReport run_one(const Sanitizer& sanitizer, const Engine& engine, const fs::path& kernel,
                       const fs::path& folder) {
  const auto built = Builder(engine).build({kernel, sanitizer.name, {}});
  if (!built.ok()) return not_run(built.error().status, built.error().what);
  Command command;
  command.arguments = {(Installation::find().bin / "kernel-lab-sanitizer").string(),
                       built->path.string(), (folder / "cases.json").string(),
                       (folder / "cases.bin").string()};
  command.environment = {
      {"ASAN_OPTIONS", fmt::format("exitcode={}:detect_leaks=0", kObjected)},
      {"UBSAN_OPTIONS", fmt::format("exitcode={}:print_stacktrace=0", kObjected)}};
  if (!sanitizer.preload.empty()) command.environment["LD_PRELOAD"] = sanitizer.preload;
  command.folder = folder;
  command.timeout_seconds = 120;
  const auto finished = run_process(command);
  if (!finished.ok()) return not_run(finished.error().status, finished.error().what);
  if (finished->ok()) return {Status::ok, "", "", 0};
  if (finished->exit_code == kObjected || finished->signal != 0)
    return {Status::rejected, sanitizer.rule, first_lines(finished->err), 0};
  return not_run(finished->timed_out ? Status::timed_out : Status::execution_failed,
                 first_lines(finished->err));
}

}  // namespace

SanitizeReport run_sanitizers(const Engine& engine, const Target& target, const CasePlan& plan,
                              const fs::path& kernel, uint64_t seed) {
  if (engine.name() != "cpu")
    return not_run(Status::missing_tool, fmt::format("no sanitizer for engine {}", engine.name()));
  const std::string address_runtime = runtime_library("libasan.so");
  if (address_runtime.empty() || runtime_library("libubsan.so").empty())
    return not_run(Status::missing_tool,
                   "the compiler's sanitizer run-times (libasan, libubsan) are not installed");
  const auto folder = TemporaryFolder::create("kernel-lab-sanitize");
  if (!folder.ok()) return not_run(folder.error().status, folder.error().what);
  CaseFile cases;
  for (const CaseGroup& group : plan.groups) {
    if (volume(group) > kSmallElements || !group.strides.empty()) continue;
    if (const Outcome added = cases.add(target, group, seed); !added.ok())
      return not_run(added.error().status, added.error().what);
  }
  if (const Outcome written = cases.write(folder->path(), target.key); !written.ok())
    return not_run(written.error().status, written.error().what);
  for (const Sanitizer& sanitizer : {Sanitizer{"address", "address-sanitizer", address_runtime},
                                     Sanitizer{"undefined", "undefined-behaviour", ""}}) {
    SanitizeReport report = run_one(sanitizer, engine, kernel, folder->path());
    report.cases = cases.count();
    if (report.status != Status::ok) return report;
  }
  return {Status::ok, "", "", cases.count()};
}

}  // namespace kl
