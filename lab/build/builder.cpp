#include <lab/build/builder.hpp>

#include <lab/build/loader.hpp>
#include <lab/build/writable_statics.hpp>
#include <lab/core/files.hpp>
#include <lab/core/hash.hpp>
#include <lab/core/installation.hpp>
#include <lab/engine/host_compiler.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace kl {
namespace {

// Part of a library's name in the cache, not of its identity: raised when the rules of compiling
// become stricter, so that nothing built under the old ones is taken.
constexpr std::string_view kBuildRules = "no-writable-static-1";

constexpr std::string_view kOracleFlags[] = {"-std=c++20", "-O2",     "-ffp-contract=off", "-fPIC",
                                             "-shared",    "-fvisibility=hidden"};

// One hash over the headers a kernel may include, so that a changed ABI header rebuilds everything.
Result<std::string> headers_hash(const std::vector<fs::path>& include_dirs) {
  std::vector<fs::path> headers;
  for (const auto& folder : include_dirs) {
    std::error_code code;
    for (const auto& entry : fs::directory_iterator(folder / "kernel_lab", code))
      headers.push_back(entry.path());
  }
  std::sort(headers.begin(), headers.end());
  std::string all;
  for (const auto& header : headers) {
    KL_TRY(const std::string hash, sha256_file(header));
    all += hash;
  }
  return sha256_hex(all);
}

// Compiles into a scratch folder in the cache and renames: concurrent builds of one thing all
// succeed, and a killed build leaves nothing that could be taken for a library.
Result<BuiltLibrary> build_cached(
    const fs::path& cache, const CompileRequest& wanted, std::string_view key,
    const std::function<Result<CompileReport>(const CompileRequest&)>& compile,
    const RunTimeSymbols* run_time) {
  KL_TRY(const std::string source, read_file(wanted.source));
  KL_TRY(const std::string headers, headers_hash(wanted.include_dirs));
  BuiltLibrary built;
  built.source_hash = sha256_hex(source);
  built.flags_hash = sha256_fields({key, headers});
  const std::string name = sha256_fields({built.source_hash, built.flags_hash, kBuildRules}).substr(0, 32);
  built.path = cache / (name + ".so");
  const fs::path report_path = cache / (name + ".json");

  if (const auto stored = read_json_file(report_path); stored.ok() && fs::exists(built.path)) {
    const auto hash = sha256_file(built.path);
    const auto report = from_json<CompileReport>(stored->value("report", Json::object()));
    if (hash.ok() && report.ok() && stored->value("library_hash", "") == *hash) {
      built.library_hash = *hash;
      built.report = *report;
      built.violations = stored->value("violations", std::vector<std::string>());
      built.writable = stored->value("writable", std::vector<std::string>());
      built.from_cache = true;
      return built;
    }
  }

  KL_CHECK(make_directories(cache));
  KL_TRY(const TemporaryFolder scratch, TemporaryFolder::create("kernel-lab-build"));
  // The very bytes that were hashed, alone in a folder: an edit meanwhile, a link or a file beside
  // the source changes nothing.
  CompileRequest request = wanted;
  request.source = scratch.path() / "source" / wanted.source.filename();
  request.shown_as = wanted.source;
  request.output = scratch.path() / "kernel.so";
  if (run_time != nullptr && run_time->linked_in) request.bare_output = scratch.path() / "bare.so";
  KL_CHECK(make_directories(request.source.parent_path()));
  KL_CHECK(write_file_atomic(request.source, source));
  KL_TRY(built.report, compile(request));
  if (run_time != nullptr) {
    const fs::path& judged = run_time->linked_in ? request.bare_output : request.output;
    KL_TRY(const LibrarySymbols symbols, read_symbols(judged, *run_time));
    built.violations = symbol_violations(symbols, *run_time);
    KL_TRY(built.writable, writable_statics(judged, *run_time));
  }
  KL_TRY(const std::string library, read_file(request.output));
  built.library_hash = sha256_hex(library);
  KL_CHECK(write_file_atomic(built.path, library));
  KL_CHECK(write_file_atomic(report_path, dump_pretty({{"library_hash", built.library_hash},
                                                       {"source", wanted.source.string()},
                                                       {"violations", built.violations},
                                                       {"writable", built.writable},
                                                       {"report", to_json(built.report)}})));
  return built;
}

std::vector<fs::path> include_dirs_or_default(const std::vector<fs::path>& given) {
  return given.empty() ? std::vector<fs::path>{Installation::find().include} : given;
}

}  // namespace

std::optional<BrokenRule> BuiltLibrary::broken_rule() const {
  if (!violations.empty())
    return BrokenRule{"forbidden-symbol", fmt::format("{}", fmt::join(violations, "; ")), "remove what the proof names"};
  if (writable.empty()) return std::nullopt;
  return BrokenRule{"writable-static",
                    fmt::format("keeps from one call to the next: {}", fmt::join(writable, "; ")),
                    "make tables const or constexpr; what one call needs is the stack's or scratch's "
                    "(scratch_bytes), and what backward needs of forward is saved's (saved_bytes)"};
}

Builder::Builder(const Engine& engine) : Builder(engine, cache_folder() / "libraries") {}
Builder::Builder(const Engine& engine, fs::path cache) : engine_(engine), cache_(std::move(cache)) {}

Result<BuiltLibrary> Builder::build(const BuildRequest& request) const {
  const CompileRequest wanted{request.source, {}, include_dirs_or_default(request.include_dirs),
                              request.sanitizer, {}};
  KL_TRY(const std::string key, engine_.build_key(wanted));
  const RunTimeSymbols run_time = engine_.run_time_symbols();
  // Instrumented builds call into their sanitizer and are never judged.
  return build_cached(cache_, wanted, key, [&](const CompileRequest& r) { return engine_.compile(r); },
                      request.sanitizer.empty() ? &run_time : nullptr);
}

Result<BuiltLibrary> Builder::build_oracle(const fs::path& source) const {
  static const Result<HostCompiler> compiler = HostCompiler::find();
  if (!compiler.ok()) return compiler.error();
  const std::vector<std::string> flags(std::begin(kOracleFlags), std::end(kOracleFlags));
  const CompileRequest wanted{source, {}, include_dirs_or_default({}), "", {}};
  std::string key = "oracle " + compiler->version();
  for (const auto& flag : flags) key += " " + flag;
  return build_cached(cache_, wanted, key,
                      [&](const CompileRequest& r) { return compiler->compile(r, flags); }, nullptr);
}

Result<OracleLibrary> open_oracle(const Builder& builder, const fs::path& source, std::string_view target) {
  const auto blame_target = [&](Error error) {
    if (error.status != Status::build_failed && error.status != Status::load_failed) return error;
    return make_error(Status::unsupported_target, fmt::format("the oracle of {}: {}", target, error.what),
                      fmt::format("correct {}; no kernel was judged", source.string()));
  };
  const auto built = builder.build_oracle(source);
  if (!built.ok()) return blame_target(built.error());
  auto loaded = OracleLibrary::load(built->path, target);
  if (!loaded.ok()) return blame_target(loaded.error());
  return loaded;
}

}  // namespace kl
