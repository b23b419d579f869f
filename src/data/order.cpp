#include "subring/data/order.hpp"

#include <bit>

#include "subring/core/error.hpp"
#include "subring/core/random.hpp"

namespace subring::data {
namespace {

// Four rounds make a Feistel network a strong pseudo-random permutation (Luby and Rackoff 1988)
// for wide halves; halves of a few bits want more, and a lookup is made once a sequence.
constexpr uint64_t kRounds = 8;

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed)
    : size_(static_cast<uint64_t>(size)), seed_(seed), half_bits_(1) {
  SUBRING_CHECK(size >= 1, ErrorKind::shape, "permutation of {} elements", size);
  half_bits_ = (static_cast<int>(std::bit_width(size_ - 1)) + 1) / 2;
  if (half_bits_ < 1) half_bits_ = 1;
}

int64_t Permutation::operator()(int64_t index) const {
  SUBRING_CHECK(index >= 0 && static_cast<uint64_t>(index) < size_,
                ErrorKind::shape,
                "index {} of a permutation of {} elements",
                index,
                size_);
  auto value = static_cast<uint64_t>(index);
  do {
    value = encrypt(value);
  } while (value >= size_);
  return static_cast<int64_t>(value);
}

uint64_t Permutation::encrypt(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  uint64_t left = value >> half_bits_;
  uint64_t right = value & mask;
  for (uint64_t round = 0; round < kRounds; ++round) {
    const uint64_t mixed = (left ^ derive_seed(seed_, round, right)) & mask;
    left = right;
    right = mixed;
  }
  return left << half_bits_ | right;
}

}  // namespace subring::data
