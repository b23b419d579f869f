#pragma once

#include <cstdint>

namespace subring::data {

/// Seeded permutation of [0, size) that costs no memory: a Feistel network over the next power of
/// four, walked along its cycle until it lands inside (Black and Rogaway 2002, "Ciphers with
/// Arbitrary Finite Domains"). A lookup takes four walks at most on average.
class Permutation {
 public:
  /// @param size  >= 1
  Permutation(int64_t size, uint64_t seed);

  /// @param index  in [0, size)
  int64_t operator()(int64_t index) const;

 private:
  uint64_t encrypt(uint64_t value) const;

  uint64_t size_;
  uint64_t seed_;
  int half_bits_;
};

}  // namespace subring::data
