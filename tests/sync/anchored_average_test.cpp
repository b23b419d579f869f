#include "subring/sync/anchored_average.hpp"

#include <array>
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

constexpr size_t kSize = 333;
constexpr double kDecay = 0.9;

Floats start_weights() {
  Random random(1);
  Floats weights(kSize);
  for (float& weight : weights) weight = static_cast<float>(random.normal());
  return weights;
}

/// What replica `rank` adds to its weights in `step`.
Floats move(int rank, int64_t step) {
  Random random(derive_seed(2, static_cast<uint64_t>(rank), static_cast<uint64_t>(step)));
  Floats moves(kSize);
  for (float& x : moves) x = static_cast<float>(0.01 * random.normal());
  return moves;
}

wire::Group group_of(wire::Transport& transport, int num_members) {
  wire::Group group{&transport, {}, transport.rank(), std::chrono::seconds(60)};
  group.ranks.resize(static_cast<size_t>(num_members));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

/// One replica; its second moment is a running mean of squared moves.
struct Replica {
  Floats weights = start_weights();
  Floats moment = Floats(kSize, 1e-6F);
  Floats residual;
  int64_t bytes = 0;

  std::array<MomentBuffer, 1> moments() { return {MomentBuffer{moment, kDecay}}; }

  void step(WeightSync& sync, int rank, int64_t step) {
    Floats gradients(kSize);
    sync.reduce_gradients(gradients);
    const Floats moves = move(rank, step);
    for (size_t i = 0; i < kSize; ++i) {
      weights[i] += moves[i];
      moment[i] = static_cast<float>(kDecay) * moment[i] +
                  static_cast<float>(1 - kDecay) * moves[i] * moves[i];
    }
  }
};

SyncOptions options_of(WeightDtype dtype, bool overlap, int64_t every) {
  SyncOptions options;
  options.method = SyncMethod::average;
  options.every = every;
  options.wire_dtype = dtype;
  options.overlap = overlap;
  return options;
}

/// Runs body(sync, replica, rank) on each of m ranks.
template <typename Body>
std::vector<Replica> run(int m, const SyncOptions& options, Body body) {
  std::vector<Replica> replicas(static_cast<size_t>(m));
  wire::run_local_ranks(m, [&](wire::Transport& inner) {
    wire::MeteredTransport metered(inner);
    Replica& replica = replicas[static_cast<size_t>(inner.rank())];
    AnchoredAverage sync(options, group_of(metered, m), start_weights(), 1);
    body(sync, replica, inner.rank());
    replica.residual.assign(sync.residual().begin(), sync.residual().end());
    replica.bytes = metered.sent_bytes()[static_cast<size_t>(wire::TrafficKind::weights)];
  });
  return replicas;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

int64_t bytes_of_all(const std::vector<Replica>& replicas) {
  int64_t bytes = 0;
  for (const Replica& replica : replicas) bytes += replica.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("averages of differences: equal replicas, nothing lost, error of one rounding only") {
  const int m = GENERATE(2, 3, 4);
  const auto dtype = GENERATE(WeightDtype::bf16, WeightDtype::int8);
  const bool overlap = GENERATE(false, true);
  const int64_t every = 3, steps = 30;
  CAPTURE(m, to_string(dtype), overlap);
  const SyncOptions options = options_of(dtype, overlap, every);
  const auto replicas = run(m, options, [&](WeightSync& sync, Replica& replica, int rank) {
    for (int64_t step = 1; step <= steps; ++step) {
      replica.step(sync, rank, step);
      if (step == steps) {
        SUBRING_CHECK(sync.settle(replica.weights, {}), ErrorKind::shape, "settled nothing");
        SUBRING_CHECK(!sync.settle(replica.weights, {}), ErrorKind::shape, "settled twice");
      } else {
        sync.synchronize(step, replica.weights, {});
      }
    }
  });
  const Floats start = start_weights();
  std::vector<double> moved(kSize);
  for (int rank = 0; rank < m; ++rank) {
    for (int64_t step = 1; step <= steps; ++step) {
      const Floats moves = move(rank, step);
      for (size_t i = 0; i < kSize; ++i) moved[i] += moves[i];
    }
  }
  double largest_error = 0;
  for (size_t i = 0; i < kSize; ++i) {
    double left = 0;
    for (const Replica& replica : replicas) left += replica.residual[i];
    const double mean_move = double{replicas[0].weights[i]} - start[i];
    // f32: each of `steps` additions, and as many in the averages, of numbers below 5.
    REQUIRE(std::abs(m * mean_move + left - moved[i]) <= 2.0 * m * steps * 5 * std::exp2(-24));
    largest_error = std::max(largest_error, std::abs(mean_move - moved[i] / m));
  }
  // Partial sums of m replicas' 3 steps of 0.01 are below 5 sigma = 0.09 m; half a step, m times.
  const double half_step = dtype == WeightDtype::int8 ? std::exp2(0.25) / 254 : std::exp2(-9);
  CHECK(largest_error > 0);
  CHECK(largest_error <= 0.09 * m * half_step + 2 * steps * 5 * std::exp2(-24));
  for (const Replica& replica : replicas) {
    REQUIRE(same_bits(replica.weights, replicas[0].weights));
  }
  // Every third step; the last one ends what travels, if something does, and adds an average.
  const int64_t syncs = overlap ? steps / every - 1 + 1 : steps / every;
  CHECK(bytes_of_all(replicas) == syncs * weight_bytes_of_sync(options, m, kSize, 1));
}

TEST_CASE(
    "without overlap replicas are equal after each average, and frozen weights keep their bits") {
  const int m = 3;
  const auto dtype = GENERATE(WeightDtype::bf16, WeightDtype::int8);
  std::vector<std::vector<Floats>> seen(m);
  run(m, options_of(dtype, false, 2), [&](WeightSync& sync, Replica& replica, int rank) {
    const float frozen = replica.weights[7];
    for (int64_t step = 1; step <= 8; ++step) {
      replica.step(sync, rank, step);
      replica.weights[7] = frozen;
      const bool changed = sync.synchronize(step, replica.weights, {});
      SUBRING_CHECK(changed == (step % 2 == 0), ErrorKind::shape, "step {}", step);
      SUBRING_CHECK(replica.weights[7] == frozen, ErrorKind::shape, "a frozen weight moved");
      seen[static_cast<size_t>(rank)].push_back(replica.weights);
    }
  });
  for (int rank : {1, 2}) {
    for (size_t step : {1, 3, 5, 7}) {
      CHECK(same_bits(seen[static_cast<size_t>(rank)][step], seen[0][step]));
    }
    CHECK(!same_bits(seen[static_cast<size_t>(rank)][2], seen[0][2]));
  }
}

TEST_CASE("overlap is the average of `every` steps ago plus own progress, to the bit") {
  const int m = GENERATE(2, 3, 4);
  const auto dtype = GENERATE(WeightDtype::fp32, WeightDtype::int8);
  const int64_t every = 2, steps = 9;
  // As documented, with a ring that is waited for where its result is needed.
  std::vector<Floats> expected(static_cast<size_t>(m));
  wire::run_local_ranks(m, [&](wire::Transport& transport) {
    FrameRing ring(group_of(transport, m), 1.0 / m);
    Replica replica;
    Floats anchor = start_weights(), residual(kSize), snapshot(kSize), gradients(kSize);
    const bool feedback = dtype == WeightDtype::int8;
    const FrameFormat format = feedback ? FrameFormat::int8 : FrameFormat::fp32;
    for (int64_t step = 1; step <= steps; ++step) {
      const Floats moves = move(transport.rank(), step);
      for (size_t i = 0; i < kSize; ++i) replica.weights[i] += moves[i];
      if (step % every != 0) continue;
      if (step > every) {
        Floats mean(kSize);
        for (size_t i = 0; i < kSize; ++i) mean[i] = snapshot[i] - anchor[i] + residual[i];
        ring.start({{mean, feedback ? std::span(residual) : std::span<float>{}, format}}, 0);
        ring.finish();
        for (size_t i = 0; i < kSize; ++i) {
          anchor[i] += mean[i];
          replica.weights[i] = anchor[i] + (replica.weights[i] - snapshot[i]);
        }
      }
      snapshot = replica.weights;
    }
    expected[static_cast<size_t>(transport.rank())] = replica.weights;
  });
  const auto replicas =
      run(m, options_of(dtype, true, every), [&](WeightSync& sync, Replica& replica, int rank) {
        for (int64_t step = 1; step <= steps; ++step) {
          // Progress at other moments on each rank and step: the result must not show it.
          for (int64_t i = 0; i < (step * 7 + rank * 5) % 11; ++i) sync.poll();
          replica.step(sync, rank, step);
          sync.synchronize(step, replica.weights, {});
        }
        // Nobody leaves while another needs what is under way.
        Floats weights = replica.weights;
        sync.settle(weights, {});
      });
  for (int rank = 0; rank < m; ++rank) {
    CHECK(same_bits(replicas[static_cast<size_t>(rank)].weights,
                    expected[static_cast<size_t>(rank)]));
  }
  CHECK(!same_bits(replicas[0].weights, replicas[1].weights));
}

TEST_CASE("averaged moments: as if the mean had been there at once, positive, bytes as predicted") {
  const int m = 3;
  const auto dtype = GENERATE(WeightDtype::fp32, WeightDtype::bf16, WeightDtype::int8);
  const bool overlap = GENERATE(false, true);
  CAPTURE(to_string(dtype), overlap);
  SyncOptions options = options_of(dtype, overlap, 3);
  options.average_moments = true;
  // Averaged at step 3; overlapped, this is applied at step 6, before the next begins.
  const auto replicas = run(m, options, [&](WeightSync& sync, Replica& replica, int rank) {
    for (int64_t step = 1; step <= 6; ++step) {
      replica.step(sync, rank, step);
      if (step == 6 && !overlap) break;
      const auto moments = replica.moments();
      sync.synchronize(step, replica.weights, moments);
    }
    Replica copy = replica;
    const auto moments = copy.moments();
    sync.settle(copy.weights, moments);
  });
  // In double: a mean at step 3, then three steps of each replica's own.
  std::vector<std::vector<double>> expected(m, std::vector<double>(kSize, 1e-6));
  for (int64_t step = 1; step <= 6; ++step) {
    for (int rank = 0; rank < m; ++rank) {
      const Floats moves = move(rank, step);
      for (size_t i = 0; i < kSize; ++i) {
        double& v = expected[static_cast<size_t>(rank)][i];
        v = kDecay * v + (1 - kDecay) * moves[i] * moves[i];
      }
    }
    for (size_t i = 0; step == 3 && i < kSize; ++i) {
      const double mean = (expected[0][i] + expected[1][i] + expected[2][i]) / m;
      for (auto& v : expected) v[i] = mean;
    }
  }
  // bf16, at random: less than 2^-7 of each of m partial sums; f32 otherwise.
  const double tolerance = dtype == WeightDtype::fp32 ? 1e-5 : m * std::exp2(-7);
  for (int rank = 0; rank < m; ++rank) {
    for (size_t i = 0; i < kSize; ++i) {
      const double v = replicas[static_cast<size_t>(rank)].moment[i];
      REQUIRE(v > 0);
      REQUIRE(v == Approx(expected[static_cast<size_t>(rank)][i]).epsilon(tolerance));
    }
  }
  // At step 3, at step 6 if overlapped, and by settle.
  CHECK(bytes_of_all(replicas) == (overlap ? 3 : 2) * weight_bytes_of_sync(options, m, kSize, 1));
}

TEST_CASE("predicted bytes of a synchronisation, by hand") {
  SyncOptions options;
  // 1000 numbers: 15 groups of 64 and one of 40.
  CHECK(weight_bytes_of_sync(options, 4, 1000, 2) == 2 * 3 * 4000);
  options.wire_dtype = WeightDtype::int8;
  CHECK(weight_bytes_of_sync(options, 4, 1000, 2) == 2 * 3 * (1000 + 16));
  options.method = SyncMethod::average;
  options.average_moments = true;
  CHECK(weight_bytes_of_sync(options, 4, 1000, 2) == 2 * 3 * (1000 + 16 + 2 * 2000));
  options.wire_dtype = WeightDtype::bf16;
  CHECK(weight_bytes_of_sync(options, 4, 1000, 2) == 2 * 3 * 3 * 2000);
  CHECK(weight_bytes_of_sync(options, 1, 1000, 2) == 0);
}

TEST_CASE("rewritten weights are the new anchor, and only equal replicas may be rewritten") {
  const int m = 2;
  const auto replicas =
      run(m,
          options_of(WeightDtype::int8, false, 1),
          [&](WeightSync& sync, Replica& replica, int rank) {
            replica.step(sync, rank, 1);
            bool refused = false;
            try {
              sync.weights_rewritten(replica.weights);
            } catch (const Error&) {
              refused = true;
            }
            SUBRING_CHECK(refused, ErrorKind::shape, "unequal replicas were taken for equal");
            sync.settle(replica.weights, {});
            // By 100, which int8 differences from the old anchor could hold to 0.5 only.
            for (float& weight : replica.weights) weight += 100.25F;
            sync.weights_rewritten(replica.weights);
            const Floats before = replica.weights;
            Floats gradients(kSize);
            sync.reduce_gradients(gradients);
            sync.settle(replica.weights, {});
            for (size_t i = 0; i < kSize; ++i) {
              SUBRING_CHECK(std::abs(replica.weights[i] - before[i]) < 1e-3F,
                            ErrorKind::shape,
                            "moved by {}",
                            replica.weights[i] - before[i]);
            }
          });
  CHECK(same_bits(replicas[0].weights, replicas[1].weights));
}
