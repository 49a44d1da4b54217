#include <lab/verify/sanitize.hpp>

#include <lab/build/builder.hpp>
#include <lab/core/files.hpp>
#include <lab/core/installation.hpp>
#include <lab/core/process.hpp>
#include <lab/verify/oracle_run.hpp>

namespace kl {

namespace {

constexpr int64_t kSmallElements = 1 << 16;  // watched kernels are slow

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
  Outcome write(const fs::path& folder, const Target& target) const {
    KL_CHECK(write_file_atomic(folder / "cases.bin", blob_));
    return write_file_atomic(folder / "cases.json",
                             dump_line(Json{{"target", target.key}, {"services", target.services}, {"cases", cases_}}));
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

SanitizeReport not_run(const Error& error) {
  SanitizeReport report;
  report.status = error.status;
  report.proof = error.what;
  report.remedy = error.remedy;
  return report;
}

Result<SanitizerVerdict> run_one(const Sanitizer& sanitizer, const Engine& engine,
                                 const fs::path& kernel, const fs::path& folder) {
  KL_TRY(const BuiltLibrary built, Builder(engine).build({kernel, sanitizer.build, {}}));
  Command command = sanitizer.command(
      {(Installation::find().bin / "kernel-lab-sanitizer").string(), std::string(engine.name()),
       built.path.string(), (folder / "cases.json").string(), (folder / "cases.bin").string()},
      folder);
  command.folder = folder;
  command.timeout_seconds = 120;
  KL_TRY(const Finished finished, run_process(command));
  return sanitizer.verdict(finished, folder);
}

}  // namespace

SanitizeReport run_sanitizers(const Engine& engine, const Target& target, const CasePlan& plan,
                              const fs::path& kernel, uint64_t seed) {
  const auto sanitizers = engine.sanitizers();
  if (!sanitizers.ok()) return not_run(sanitizers.error());
  const auto folder = TemporaryFolder::create("kernel-lab-sanitize");
  if (!folder.ok()) return not_run(folder.error());
  CaseFile cases;
  for (const CaseGroup& group : plan.groups) {
    if (volume(group) > kSmallElements || !group.strides.empty()) continue;
    if (const Outcome added = cases.add(target, group, seed); !added.ok())
      return not_run(added.error());
  }
  if (const Outcome written = cases.write(folder->path(), target); !written.ok())
    return not_run(written.error());
  SanitizeReport report;
  report.cases = cases.count();
  for (const Sanitizer& sanitizer : *sanitizers) {
    auto verdict = run_one(sanitizer, engine, kernel, folder->path());
    if (!verdict.ok()) verdict = SanitizerVerdict{verdict.error().status, verdict.error().what,
                                                  verdict.error().remedy, {}};
    report.status = verdict->status;
    if (verdict->status == Status::ok) {
      report.tools.push_back(sanitizer.rule);
      continue;
    }
    report.rule = sanitizer.rule;
    report.proof = verdict->proof;
    report.remedy = verdict->remedy;
    report.findings = std::move(verdict->findings);
    break;
  }
  return report;
}

}  // namespace kl
