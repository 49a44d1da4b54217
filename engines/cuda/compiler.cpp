#include <engines/cuda/compiler.hpp>

#include <engines/cuda/ptxas_report.hpp>
#include <engines/cuda/toolkit.hpp>

#include <lab/core/files.hpp>
#include <lab/core/process.hpp>
#include <lab/engine/one_file.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace kl::cuda {
namespace {

// Set by people for their own builds; none of them may change a kernel's.
const std::vector<std::string> kOthersFlags = {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "NVCC_CCBIN"};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

Result<Finished> run_nvcc(std::vector<std::string> arguments, const fs::path& folder, const fs::path& scratch) {
  return run_process({.arguments = std::move(arguments),
                      .environment = {{"LC_ALL", "C"}, {"TMPDIR", scratch.string()}},
                      .unset = kOthersFlags,
                      .folder = folder,
                      .timeout_seconds = 600});
}

Error does_not_compile(const std::string& shown, const Finished& run, const std::string& said) {
  std::string message = trimmed_message(without_ptxas_info(said));
  if (run.timed_out) message = "nvcc did not finish in 600 s\n";
  if (run.signal != 0) message = fmt::format("nvcc was killed by signal {}\n{}", run.signal, message);
  return make_error(Status::build_failed, fmt::format("{} does not compile:\n{}", shown, message),
                    "correct the source and run the same command again");
}

// What nvcc writes into the host's side of every library: the handle of the device code, the entry
// the toolkit finds it by, and what a launch remembers of the kernel it launches.
bool is_nvccs(std::string_view symbol) {
  if (symbol == "_ZL20__cudaFatCubinHandle" || symbol == "_ZL15__fatDeviceText") return true;
  const bool in_launch = symbol.find("__device_stub__") != std::string_view::npos;
  return in_launch && (symbol.ends_with("E5__tmp") || symbol.ends_with("E8__handle"));
}

}  // namespace

std::vector<std::string> kernel_flags(const std::string& architecture) {
  return {"-std=c++20",     "-O3",
          "-lineinfo",      "-arch=" + architecture,
          "-cudart",        "static",
          "-Xcompiler",     "-fPIC,-fvisibility=hidden,-Werror=date-time",
          "-Xptxas",        "-v",
          "--resource-usage"};
}

Result<std::string> build_key() {
  KL_TRY(const Toolkit toolkit, Toolkit::find());
  return fmt::format("nvcc {} | {}", toolkit.version, fmt::join(kernel_flags(target_architecture()), " "));
}

Result<CompileReport> compile(const CompileRequest& request) {
  KL_TRY(const Toolkit toolkit, Toolkit::find());
  KL_TRY(const TemporaryFolder scratch, TemporaryFolder::create("kernel-lab-nvcc"));
  const std::vector<std::string> flags = kernel_flags(target_architecture());
  const fs::path source = fs::absolute(request.source);
  const std::string shown = request.shown_as.empty() ? source.string() : request.shown_as.string();
  const fs::path object = scratch.path() / "kernel.o";
  const fs::path headers = scratch.path() / "headers.d", assembled = scratch.path() / "assembled.d";

  // In the source's own folder and by its bare name, so that no path enters the library.
  std::vector<std::string> arguments = {toolkit.nvcc.string()};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  arguments.insert(arguments.end(), {"-Xcompiler", "-Wa\\,--MD\\," + assembled.string(), "-MD", "-MF", headers.string()});
  std::vector<fs::path> permitted = {source, scratch.path(), "/usr/include", "/usr/lib", "/usr/local/include",
                                     toolkit.include, fs::weakly_canonical(toolkit.nvcc).parent_path().parent_path()};
  for (const auto& folder : request.include_dirs) {
    // nvcc names what lies behind links, so that what the folder offers is permitted by that name too.
    for (const char* part : {"kernel_lab", "dlpack"}) permitted.push_back(fs::weakly_canonical(folder / part));
    permitted.push_back(fs::absolute(folder));
    arguments.insert(arguments.end(), {"-isystem", permitted.back().string()});
  }
  arguments.insert(arguments.end(), {"-c", "-o", object.string(), source.filename().string()});
  KL_TRY(const Finished run, run_nvcc(arguments, source.parent_path(), scratch.path()));
  const std::string said = replaced(run.out + run.err, source.filename().string(), shown);
  if (!run.ok()) return does_not_compile(shown, run, said);
  if (const auto outside = read_from_outside(headers, source.parent_path(), permitted))
    return reads_another_file(shown, *outside);
  permitted.push_back(source.parent_path());  // where the assembler sees nvcc's own temporary files
  if (const auto outside = read_from_outside(assembled, source.parent_path(), permitted))
    return reads_another_file(shown, *outside);

  double seconds = run.wall_seconds;
  const auto link = [&](std::vector<std::string> command) -> Outcome {
    KL_TRY(const Finished linked, run_nvcc(std::move(command), scratch.path(), scratch.path()));
    seconds += linked.wall_seconds;
    if (!linked.ok()) return does_not_compile(shown, linked, linked.out + linked.err);
    return {};
  };
  if (!request.bare_output.empty())
    KL_CHECK(link({"g++", "-shared", "-Wl,-z,relro", "-Wl,-z,now", "-o", fs::absolute(request.bare_output).string(), object.string()}));
  KL_CHECK(link({toolkit.nvcc.string(), "-shared", flags[3], "-cudart", "static", "-Xlinker", "-z,now", "-o",
                 fs::absolute(request.output).string(), object.string()}));

  CompileReport report{"nvcc " + toolkit.version, flags, {}, seconds};
  for (const KernelResources& kernel : resources_of(run.out + run.err)) report.notes.push_back(note_of(kernel));
  return report;
}

// A kernel may launch, ask about the device and set attributes of its own functions; it may not
// allocate, wait, make streams or events, or ask whether it is being captured.
RunTimeSymbols run_time_symbols() {
  return {{"__cudaRegisterFatBinary", "__cudaRegisterFatBinaryEnd", "__cudaUnregisterFatBinary",
           "__cudaRegisterFunction", "__cudaRegisterVar", "__cudaRegisterTexture", "__cudaRegisterSurface",
           "__cudaInitModule", "__cudaGetKernel", "__cudaLaunchKernel", "__cudaLaunchKernelHelper",
           "__cudaPushCallConfiguration", "__cudaPopCallConfiguration",
           "cudaLaunchKernel", "cudaLaunchKernelExC", "cudaLaunchCooperativeKernel",
           "cudaGetLastError", "cudaPeekAtLastError", "cudaGetErrorString", "cudaGetErrorName",
           "cudaFuncSetAttribute", "cudaFuncGetAttributes", "cudaFuncSetCacheConfig",
           "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
           "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
           "cudaOccupancyMaxPotentialClusterSize", "cudaOccupancyMaxActiveClusters",
           "cudaGetDevice", "cudaDeviceGetAttribute", "cudaGetDeviceProperties", "cudaGetDeviceProperties_v2",
           "cudaMemsetAsync", "cudaMemcpyAsync", "cudaMemset2DAsync", "cudaMemcpy2DAsync",
           "exit",  // of the stand-ins that nvcc writes for device functions
           "__cxa_atexit", "__cxa_guard_acquire", "__cxa_guard_release", "__cxa_guard_abort"},
          1, true, true, is_nvccs};
}

}  // namespace kl::cuda
