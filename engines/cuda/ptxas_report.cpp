#include <engines/cuda/ptxas_report.hpp>

#include <cxxabi.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <regex>
#include <sstream>

namespace kl::cuda {
namespace {

// Cuts "(float const*, long)" off, but not the "(int)1" of a template argument.
std::string without_parameters(const std::string& name) {
  if (name.empty() || name.back() != ')') return name;
  int depth = 0;
  for (size_t i = name.size(); i-- > 0;) {
    if (name[i] == ')') ++depth;
    if (name[i] == '(' && --depth == 0) return name.substr(0, i);
  }
  return name;
}

std::string demangled(const std::string& symbol) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
  std::string name = without_parameters(status == 0 && text ? text.get() : symbol);
  static const std::string kAnonymous = "(anonymous namespace)::";
  for (size_t at = 0; (at = name.find(kAnonymous, at)) != std::string::npos;) name.erase(at, kAnonymous.size());
  if (name.starts_with("void ")) name.erase(0, 5);
  return name;
}

int number_before(const std::string& line, const char* words) {
  std::smatch found;
  return std::regex_search(line, found, std::regex(std::string(R"((\d+) )") + words)) ? std::atoi(found[1].str().c_str()) : -1;
}

}  // namespace

std::vector<KernelResources> resources_of(const std::string& ptxas_output) {
  static const std::regex kEntry(R"(Compiling entry function '([^']+)')");
  std::vector<KernelResources> kernels;
  std::istringstream lines(ptxas_output);
  bool inside = false;  // of an entry; properties of plain device functions follow too
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_search(line, found, kEntry)) {
      kernels.push_back({.name = demangled(found[1])});
      inside = true;
      continue;
    }
    if (!inside) continue;
    KernelResources& kernel = kernels.back();
    if (const int bytes = number_before(line, "bytes stack frame"); bytes >= 0) {
      kernel.stack_bytes = bytes;
      kernel.spill_store_bytes = std::max(0, number_before(line, "bytes spill stores"));
      kernel.spill_load_bytes = std::max(0, number_before(line, "bytes spill loads"));
    }
    if (const int count = number_before(line, "registers"); count >= 0) {
      kernel.registers = count;
      kernel.shared_bytes = std::max(0, number_before(line, "bytes smem"));
      inside = false;
    }
  }
  return kernels;
}

std::string note_of(const KernelResources& kernel) {
  std::string text = kernel.name + ": ";
  text += kernel.registers < 0 ? "registers unknown" : fmt::format("{} registers", kernel.registers);
  if (kernel.shared_bytes > 0) text += fmt::format(", {} bytes of shared memory", kernel.shared_bytes);
  if (kernel.stack_bytes > 0) text += fmt::format(", {} bytes of stack", kernel.stack_bytes);
  if (kernel.spill_store_bytes + kernel.spill_load_bytes > 0)
    text += fmt::format(", spills {} bytes out and {} bytes in", kernel.spill_store_bytes, kernel.spill_load_bytes);
  else
    text += ", no spills";
  return text;
}

std::string without_ptxas_info(const std::string& output) {
  std::istringstream lines(output);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("ptxas info") || line.find("bytes stack frame") != std::string::npos) continue;
    result += line + "\n";
  }
  return result;
}

}  // namespace kl::cuda
