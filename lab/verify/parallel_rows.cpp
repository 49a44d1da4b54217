#include <lab/verify/parallel_rows.hpp>

#include <lab/core/fingerprint.hpp>

#include <algorithm>
#include <thread>
#include <vector>

namespace kl {

int most_parts() { return std::max(1, usable_cores()); }

int parallel_rows(int64_t rows, int64_t least,
                  const std::function<void(int part, int64_t first, int64_t end)>& work) {
  const int64_t parts = std::clamp<int64_t>(rows / std::max<int64_t>(least, 1), 1, most_parts());
  std::vector<std::jthread> threads;
  for (int64_t part = 1; part < parts; ++part)
    threads.emplace_back(work, static_cast<int>(part), rows * part / parts,
                         rows * (part + 1) / parts);
  work(0, 0, rows / parts);
  return static_cast<int>(parts);
}

}  // namespace kl
