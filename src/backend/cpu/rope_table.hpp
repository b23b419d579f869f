#pragma once

#include <cstdint>
#include <vector>

namespace subring::cpu {

/// cos and sin of the first kBlock positions, for every frequency, in double. Any position is
/// kBlock * coarse + fine: the coarse rotation is formed once a block, and the product of the two
/// is as exact as double arithmetic, at positions where a float angle would be off by radians.
struct RopeTable {
  static constexpr int64_t kBlock = 256;

  RopeTable(double theta_base, int64_t size);

  double theta;
  int64_t head_dim;
  std::vector<double> frequency;  ///< [D / 2]
  std::vector<double> cosine;     ///< [kBlock, D / 2]
  std::vector<double> sine;       ///< [kBlock, D / 2]
};

}  // namespace subring::cpu
