// Cases too large for the oracle. Rows are independent (the target's row axis), so the contents
// are a tile of few random rows, each repeated many times in random order: what the oracle says of
// the tile holds for every row, and every element of the case is judged, none sampled. Outputs
// without the row axis are sums over rows: the oracle's sum of the tile, times the repeats.
#pragma once

#include <lab/verify/case_plan.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace kl {

struct RowExpansion {
  std::string axis;                // the target's row axis
  int64_t rows = 0;                // of the case
  int64_t tile_rows = 0;           // distinct
  std::vector<uint32_t> source;    // [rows] row of the tile
  int64_t repeats() const { return rows / tile_rows; }
  int64_t remainder() const { return rows % tile_rows; }  // the tile's first rows, once more

  static RowExpansion create(std::string axis, int64_t rows, int64_t tile_rows, uint64_t seed);
};

// Has the row axis first, and nowhere else: rows of it follow rows of the case.
bool has_rows(const TensorSpec& tensor, const std::string& row_axis);
// Every tensor either has rows or does not know the row axis.
bool is_expandable(const Target& target);

// Of all outputs of all operations.
int64_t output_elements(const Target& target, const CaseGroup& group);
// Distinct rows of a case of these axes; 0: the oracle takes it whole.
int64_t tile_rows_of(const Target& target, const CaseGroup& group, int64_t largest_elements);

}  // namespace kl
