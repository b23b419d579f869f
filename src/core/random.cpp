#include "subring/core/random.hpp"

#include <cmath>
#include <numbers>

namespace subring {

uint64_t Random::below(uint64_t bound) {
  // Draws from the incomplete last interval would favour small results: reject them.
  const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
  uint64_t bits = next_bits();
  while (bits >= limit) bits = next_bits();
  return bits % bound;
}

double Random::normal() {
  const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace subring
