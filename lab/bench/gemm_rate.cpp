#include <lab/bench/gemm_rate.hpp>

#include <lab/core/clock.hpp>
#include <lab/core/fingerprint.hpp>
#include <lab/services/services.hpp>
#include <lab/stats/quantile.hpp>

#include <fmt/format.h>

#include <vector>

namespace kl {

DeviceFigures measure_host_gemm(bool quick) { return measure_host_gemm(2048, quick ? 3 : 9); }

DeviceFigures measure_host_gemm(int64_t size, int repeats) {
  const std::vector<std::string> listed = {"sgemm"};
  const kl_services& host = services(listed);
  make_services_ready(usable_cores());
  const auto count = static_cast<size_t>(size * size);
  const std::vector<float> a(count, 0.5f), b(count, 0.25f);
  std::vector<float> c(count);
  DeviceFigures figures;
  std::vector<double> ns;
  for (int i = 0; i <= repeats; ++i) {
    const int64_t begin = monotonic_ns();
    const kl_result done = host.sgemm('N', 'T', size, size, size, 1, a.data(), size, b.data(), size, 0, c.data(), size);
    const int64_t end = monotonic_ns();
    if (done.code != KL_OK) {
      figures.gemm_unknown = fmt::format("sgemm answers {}", done.code);
      return figures;
    }
    if (i > 0) ns.push_back(static_cast<double>(end - begin));
  }
  const double n = static_cast<double>(size);
  figures.fp32_tflop_per_s = 2 * n * n * n / stats::median(ns) * 1e-3;
  figures.gemm_shape = fmt::format("{0} x {0} x {0}", size);
  return figures;
}

}  // namespace kl
