#include "subring/sync/weight_sync.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
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

/// One replica's buffers; normal numbers of its own, second moments non-negative.
struct Replica {
  explicit Replica(int rank, size_t n = 101) {
    Random random(derive_seed(3, static_cast<uint64_t>(rank)));
    for (Floats* values : {&gradients, &weights, &first_moments, &second_moments}) {
      values->resize(n);
      for (float& value : *values) value = static_cast<float>(random.normal());
    }
    for (float& value : second_moments) value = std::abs(value);
  }

  bool synchronize(WeightSync& sync, int64_t step) {
    return sync.synchronize(step, weights, moments());
  }

  bool settle(WeightSync& sync) { return sync.settle(weights, moments()); }

  std::array<MomentBuffer, 2> moments() {
    return {MomentBuffer{first_moments, 0.9}, MomentBuffer{second_moments, 0.95}};
  }

  Floats gradients, weights, first_moments, second_moments;
};

/// What is left on every rank after `body(sync, replica, metered)`.
template <typename Body>
std::vector<Replica> run_replicas(int num_ranks, const SyncOptions& options, Body body) {
  std::vector<Replica> replicas;
  for (int rank = 0; rank < num_ranks; ++rank) replicas.emplace_back(rank);
  wire::run_local_ranks(num_ranks, [&](wire::Transport& inner) {
    wire::MeteredTransport metered(inner);
    wire::Group group{&metered, {}, inner.rank(), std::chrono::seconds(60)};
    group.ranks.resize(static_cast<size_t>(num_ranks));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);
    const auto sync = make_weight_sync(options, group, Replica(0).weights, 2);
    body(*sync, replicas[static_cast<size_t>(inner.rank())], metered);
  });
  return replicas;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

/// `values` = sum over fresh replicas of `member` times `factor`, within what adding m floats may
/// round: (m - 1) additions of at most eps / 2 of the sum of magnitudes, and one product.
void require_scaled_sum(const Floats& values,
                        int num_ranks,
                        Floats Replica::*member,
                        double factor) {
  std::vector<Replica> fresh;
  for (int rank = 0; rank < num_ranks; ++rank) fresh.emplace_back(rank);
  for (size_t i = 0; i < values.size(); ++i) {
    double sum = 0;
    double magnitude = 0;
    for (const Replica& replica : fresh) {
      sum += (replica.*member)[i];
      magnitude += std::abs((replica.*member)[i]);
    }
    const double eps = std::numeric_limits<float>::epsilon();
    const double bound = factor * magnitude * num_ranks * eps / 2 * (1 + eps * num_ranks);
    REQUIRE(std::abs(values[i] - factor * sum) <= bound);
  }
}

int64_t weight_bytes(const wire::MeteredTransport& metered) {
  return metered.sent_bytes()[static_cast<size_t>(wire::TrafficKind::weights)];
}

void check(bool condition, std::string_view what) {
  SUBRING_CHECK(condition, ErrorKind::shape, "expected: {}", what);
}

}  // namespace

TEST_CASE("all_reduce gives every replica the summed gradient and leaves weights alone") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 8);
  std::vector<int64_t> bytes(static_cast<size_t>(num_ranks));
  const auto replicas = run_replicas(
      num_ranks, {}, [&](WeightSync& sync, Replica& replica, wire::MeteredTransport& metered) {
        check(sync.replicas_always_equal(), "replicas stay equal");
        sync.reduce_gradients(replica.gradients);
        bytes[static_cast<size_t>(metered.rank())] = weight_bytes(metered);
        check(!replica.synchronize(sync, 1), "weights unmoved");
        check(weight_bytes(metered) == bytes[static_cast<size_t>(metered.rank())],
              "no bytes for weights");
      });
  for (const Replica& replica : replicas) {
    REQUIRE(same_bits(replica.gradients, replicas[0].gradients));
  }
  require_scaled_sum(replicas[0].gradients, num_ranks, &Replica::gradients, 1.0);
  for (int rank = 0; rank < num_ranks; ++rank) {
    REQUIRE(same_bits(replicas[static_cast<size_t>(rank)].weights, Replica(rank).weights));
  }
  // Summed over ranks every segment travels m - 1 times in each of the two halves.
  REQUIRE(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) ==
          2 * (num_ranks - 1) * 101 * int64_t{sizeof(float)});
}

TEST_CASE("average scales the local gradient and averages weights every few steps") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 8);
  const bool with_moments = GENERATE(false, true);
  SyncOptions options;
  options.method = SyncMethod::average;
  options.every = 3;
  options.average_moments = with_moments;
  std::vector<int64_t> bytes(static_cast<size_t>(num_ranks));
  const auto replicas = run_replicas(
      num_ranks, options, [&](WeightSync& sync, Replica& replica, wire::MeteredTransport& metered) {
        const Replica before = replica;
        check(sync.replicas_always_equal() == (num_ranks == 1), "replicas differ in between");
        sync.reduce_gradients(replica.gradients);
        for (size_t i = 0; i < before.gradients.size(); ++i) {
          check(replica.gradients[i] == before.gradients[i] * static_cast<float>(num_ranks),
                "m times the own share");
        }
        for (int64_t step : {1, 2}) check(!replica.synchronize(sync, step), "not yet");
        check(same_bits(replica.weights, before.weights), "weights untouched");
        check(weight_bytes(metered) == 0, "no bytes yet");
        check(replica.synchronize(sync, 3) == (num_ranks > 1), "averaged in step 3");
        bytes[static_cast<size_t>(metered.rank())] = weight_bytes(metered);
      });
  for (const Replica& replica : replicas) {
    REQUIRE(same_bits(replica.weights, replicas[0].weights));
  }
  const double factor = 1.0 / num_ranks;
  require_scaled_sum(replicas[0].weights, num_ranks, &Replica::weights, factor);
  if (with_moments) {
    require_scaled_sum(replicas[0].first_moments, num_ranks, &Replica::first_moments, factor);
    require_scaled_sum(replicas[0].second_moments, num_ranks, &Replica::second_moments, factor);
    for (float value : replicas[0].second_moments) REQUIRE(value >= 0.0F);
  } else {
    for (int rank = 0; rank < num_ranks; ++rank) {
      const Replica& replica = replicas[static_cast<size_t>(rank)];
      REQUIRE(same_bits(replica.first_moments, Replica(rank).first_moments));
      REQUIRE(same_bits(replica.second_moments, Replica(rank).second_moments));
    }
  }
  const int64_t buffers = with_moments ? 3 : 1;
  REQUIRE(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) ==
          buffers * 2 * (num_ranks - 1) * 101 * int64_t{sizeof(float)});
}

TEST_CASE("all_reduce over a narrow wire: equal gradients, and what is left is sent later") {
  const int num_ranks = GENERATE(1, 2, 3, 4);
  SyncOptions options;
  options.wire_dtype = GENERATE(WeightDtype::bf16, WeightDtype::int8);
  const int steps = 50;
  std::vector<std::vector<double>> totals(static_cast<size_t>(num_ranks), std::vector<double>(101));
  std::vector<int64_t> bytes(static_cast<size_t>(num_ranks));
  const auto replicas = run_replicas(
      num_ranks, options, [&](WeightSync& sync, Replica& replica, wire::MeteredTransport& metered) {
        const Floats own = replica.gradients;
        auto& total = totals[static_cast<size_t>(metered.rank())];
        for (int step = 0; step < steps; ++step) {
          replica.gradients = own;
          sync.reduce_gradients(replica.gradients);
          for (size_t i = 0; i < own.size(); ++i) total[i] += replica.gradients[i];
        }
        check(sync.replicas_always_equal(), "replicas stay equal");
        bytes[static_cast<size_t>(metered.rank())] = weight_bytes(metered);
      });
  for (const auto& total : totals) REQUIRE(total == totals[0]);
  CHECK(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}) ==
        steps * weight_bytes_of_sync(options, num_ranks, 101, 2));
  for (size_t i = 0; i < totals[0].size(); ++i) {
    double sum = 0;
    for (int rank = 0; rank < num_ranks; ++rank) sum += double{Replica(rank).gradients[i]};
    // What is missing of all steps is at most one rounding of each of m partial sums (below 4.5 a
    // rank, and what was left before): it does not grow with the steps.
    const double half_step =
        options.wire_dtype == WeightDtype::int8 ? std::exp2(0.25) / 254 : std::exp2(-9);
    REQUIRE(std::abs(totals[0][i] - steps * sum) <=
            4.5 * num_ranks * num_ranks * half_step * 1.1 + steps * 1e-5);
  }
}

TEST_CASE("overlap without averages is a config error") {
  SyncOptions options;
  options.overlap = true;
  REQUIRE_THROWS_WITH(make_weight_sync(options, {}, {}, 0),
                      "weight_sync.overlap needs weight_sync.method average");
}

TEST_CASE("an average settles once") {
  SyncOptions options;
  options.method = SyncMethod::average;
  options.every = 5;
  const auto replicas = run_replicas(
      3, options, [&](WeightSync& sync, Replica& replica, wire::MeteredTransport& metered) {
        sync.reduce_gradients(replica.gradients);
        check(replica.settle(sync), "replicas differ after a step");
        const int64_t bytes = weight_bytes(metered);
        check(!replica.settle(sync) && weight_bytes(metered) == bytes, "nothing more to do");
      });
  for (const Replica& replica : replicas) {
    REQUIRE(same_bits(replica.weights, replicas[0].weights));
  }
}

TEST_CASE("averaging every 0 steps is a config error") {
  SyncOptions options;
  options.every = 0;
  REQUIRE_THROWS_WITH(make_weight_sync(options, {}, {}, 0),
                      "weight_sync.every is 0, allowed: 1 or more");
}
