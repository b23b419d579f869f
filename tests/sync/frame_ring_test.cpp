#include "subring/sync/frame_ring.hpp"

#include <cmath>
#include <cstring>
#include <numeric>
#include <vector>

#include "subring/core/random.hpp"
#include "subring/wire/local.hpp"
#include "subring/wire/metered.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::sync;

namespace {

using Floats = std::vector<float>;

struct Member {
  Floats values, residual;
  int64_t bytes = 0;
};

/// Normal numbers whose size changes from group to group by up to 1000.
Floats addend(int rank, size_t size) {
  Random random(derive_seed(7, static_cast<uint64_t>(rank)));
  Floats values(size);
  for (size_t i = 0; i < size; ++i) {
    const double scale = std::pow(10.0, static_cast<double>(i / kScaleGroup % 4));
    values[i] = static_cast<float>(scale * random.normal());
  }
  return values;
}

wire::Group group_of(wire::Transport& transport, int num_members) {
  wire::Group group{&transport, {}, transport.rank(), std::chrono::seconds(60)};
  group.ranks.resize(static_cast<size_t>(num_members));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

std::vector<Member> reduce(
    int num_members, size_t size, FrameFormat format, Rounding rounding, uint64_t seed) {
  std::vector<Member> members(static_cast<size_t>(num_members));
  wire::run_local_ranks(num_members, [&](wire::Transport& inner) {
    wire::MeteredTransport metered(inner);
    Member& member = members[static_cast<size_t>(inner.rank())];
    member.values = addend(inner.rank(), size);
    member.residual.resize(size);
    FrameRing ring(group_of(metered, num_members), 1.0 / num_members);
    ring.start({{member.values, member.residual, format, rounding}}, seed);
    ring.finish();
    member.bytes = metered.sent_bytes()[static_cast<size_t>(wire::TrafficKind::weights)];
  });
  return members;
}

/// Largest |partial sum| of a group that a rounding can meet.
double group_magnitude(size_t first, const std::vector<Floats>& addends) {
  double largest = 0;
  for (size_t j = first; j < std::min(addends[0].size(), first + kScaleGroup); ++j) {
    double sum = 0;
    for (const Floats& values : addends) sum += std::abs(double{values[j]});
    largest = std::max(largest, sum);
  }
  return largest;
}

}  // namespace

TEST_CASE("a ring of frames leaves the mean: same bits, bounded error, nothing lost, exact bytes") {
  const int m = GENERATE(1, 2, 3, 4);
  const auto format = GENERATE(FrameFormat::fp32, FrameFormat::bf16, FrameFormat::int8);
  const size_t size = GENERATE(size_t{1}, size_t{63}, size_t{1000});
  CAPTURE(m, to_string(format), size);
  const auto members = reduce(m, size, format, Rounding::nearest, 0);
  int64_t bytes = 0;
  for (const Member& member : members) {
    REQUIRE(std::memcmp(member.values.data(), members[0].values.data(), 4 * size) == 0);
    bytes += member.bytes;
  }
  CHECK(bytes == frame_ring_bytes(format, static_cast<int64_t>(size), m));
  std::vector<Floats> addends;
  for (int rank = 0; rank < m; ++rank) addends.push_back(addend(rank, size));
  // Half a step of the largest of a group, once for each of m partial sums; f32 adds 2^-24 a sum.
  const double half_step = format == FrameFormat::int8   ? std::exp2(0.25) / 254
                           : format == FrameFormat::bf16 ? std::exp2(-9)
                                                         : 0;
  std::vector<double> magnitudes;
  for (size_t i = 0; i < size; i += kScaleGroup) magnitudes.push_back(group_magnitude(i, addends));
  for (size_t i = 0; i < size; ++i) {
    double sum = 0, left = 0;
    for (int rank = 0; rank < m; ++rank) {
      sum += addends[static_cast<size_t>(rank)][i];
      left += members[static_cast<size_t>(rank)].residual[i];
    }
    const double magnitude = magnitudes[i / kScaleGroup];
    const double f32_error = magnitude * 4 * m * std::exp2(-24);
    const double mean = members[0].values[i];
    if (m > 1) REQUIRE(std::abs(m * mean + left - sum) <= f32_error);
    REQUIRE(std::abs(m * mean - sum) <= m * half_step * magnitude + f32_error);
  }
}

TEST_CASE("a ring of frames works through several rounds and several vectors at once") {
  const int m = 3;
  const size_t size = 2'400'007;  // of 3 * 128 Ki a round: 7 rounds on 4 slots
  std::vector<Floats> results(m);
  wire::run_local_ranks(m, [&](wire::Transport& transport) {
    Floats& values = results[static_cast<size_t>(transport.rank())];
    values.resize(size);
    for (size_t i = 0; i < size; ++i) values[i] = static_cast<float>((i % 97) * 3);
    Floats second(100, static_cast<float>(transport.rank()));
    FrameRing ring(group_of(transport, m), 1.0);
    ring.start({{.values = values}, {.values = second}}, 0);
    while (!ring.poll()) {
    }
    for (float value : second) SUBRING_CHECK(value == 3, ErrorKind::shape, "{}", value);
  });
  for (const Floats& result : results) {
    size_t wrong = 0;
    for (size_t i = 0; i < size; ++i) wrong += result[i] != static_cast<float>((i % 97) * 9);
    CHECK(wrong == 0);
  }
}

TEST_CASE("stochastic rounding of a ring of frames is unbiased") {
  const auto format = GENERATE(FrameFormat::bf16, FrameFormat::int8);
  const int m = 3, trials = 400;
  const size_t size = 130;
  std::vector<double> mean(size), square(size);
  for (int trial = 0; trial < trials; ++trial) {
    const auto members =
        reduce(m, size, format, Rounding::stochastic, static_cast<uint64_t>(trial));
    for (size_t i = 0; i < size; ++i) {
      mean[i] += members[0].values[i] / double{trials};
      square[i] += double{members[0].values[i]} * members[0].values[i] / trials;
    }
  }
  double sum_of_z = 0;
  for (size_t i = 0; i < size; ++i) {
    double exact = 0;
    for (int rank = 0; rank < m; ++rank) exact += addend(rank, size)[i] / double{m};
    const double error = std::sqrt(std::max(square[i] - mean[i] * mean[i], 0.0) / trials);
    CAPTURE(i);
    CHECK(std::abs(mean[i] - exact) <= 5 * error + 1e-5 * std::abs(exact));
    if (error > 0) sum_of_z += (mean[i] - exact) / error;
  }
  CHECK(std::abs(sum_of_z) < 5 * std::sqrt(static_cast<double>(size)));
}

TEST_CASE("a member that does not come is named") {
  wire::run_local_ranks(2, [&](wire::Transport& transport) {
    Floats values(10);
    wire::Group group = group_of(transport, 2);
    group.timeout = std::chrono::duration<double>(0.05);
    if (transport.rank() == 1) return;
    FrameRing ring(group, 1);
    ring.start({{.values = values}}, 0);
    std::string message;
    try {
      ring.finish();
    } catch (const Error& error) {
      message = error.what();
    }
    SUBRING_CHECK(message == "rank 0 waited 0.1 s for rank 1 (weight average, tag 31000)",
                  ErrorKind::shape,
                  "'{}'",
                  message);
  });
  SUCCEED("rank 1 was named");
}
