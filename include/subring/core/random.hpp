#pragma once

#include <cstdint>

namespace subring {

/// Mixes 64 bits (the finaliser of SplitMix64; Steele, Lea, Flood 2014). Stateless, so that any
/// element of a random stream can be made anywhere, in any order, on any number of threads.
constexpr uint64_t mix_bits(uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// A named stream of a run's seed: same arguments, same stream.
constexpr uint64_t derive_seed(uint64_t seed, uint64_t a, uint64_t b = 0, uint64_t c = 0) {
  return mix_bits(mix_bits(mix_bits(mix_bits(seed) ^ a) ^ b) ^ c);
}

/// Sequential generator over one stream.
class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}

  uint64_t next_bits() { return mix_bits(seed_ + 0x9e3779b97f4a7c15ULL * counter_++); }
  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next_bits() >> 11) * 0x1.0p-53; }
  /// Uniform in [0, bound), unbiased. @param bound  > 0
  uint64_t below(uint64_t bound);
  /// Standard normal (Box-Muller).
  double normal();

 private:
  uint64_t seed_;
  uint64_t counter_ = 0;
};

}  // namespace subring
