#include "subring/report/plan.hpp"

#include <algorithm>
#include <cmath>

#include "rehearsal.hpp"
#include "subring/codec/block_layout.hpp"
#include "subring/mesh/mesh.hpp"
#include "subring/wire/link_clock.hpp"

namespace subring::report {
namespace {

using codec::Codec;
using codec::CompressionOptions;
using wire::NetworkOptions;
using wire::TrafficKind;

/// Adds up one rank's marks; sequences after the second go as the second.
class RankSums {
 public:
  RankSums(const RankRehearsal& rank, int64_t num_sequences, const sync::SyncOptions& sync) {
    Mark last;
    for (size_t i = 0; i < rank.sequences.size(); i += 2) {
      const double times = i == 0 ? 1 : static_cast<double>(num_sequences - 1);
      add(forward, rank.sequences[i], last, times);
      add(backward, rank.sequences[i + 1], last, times);
    }
    add(update, rank.reduced, last, 1);
    add(update, rank.updated, last, 1);
    Mark average;
    add(average, rank.averaged, last, 1.0 / static_cast<double>(sync.every));
    average_seconds = average.now;
    if (!sync.overlap) add(update, average, {}, 1);
    add(update, rank.end, last, 1);
  }

  double seconds() const { return forward.now + backward.now + update.now; }

  Mark forward, backward, update;  // differences, not moments
  double average_seconds = 0;      // of one step's share of an average that is exchanged

 private:
  static void add(Mark& sum, const Mark& to, Mark&& from, double times) {
    add(sum, to, from, times);
  }
  static void add(Mark& sum, const Mark& to, Mark& from, double times) {
    sum.now += times * (to.now - from.now);
    sum.computed += times * (to.computed - from.computed);
    sum.waited += times * (to.waited - from.waited);
    from = to;
  }
};

/// What the busiest uplink needs for its K and V, were nothing else to do.
double busiest_uplink_seconds(const NetworkOptions& network, double bytes) {
  return bytes * 8 / (network.bandwidth * wire::kGoodput);
}

NetworkOptions without_latency(NetworkOptions network) {
  network.latency_seconds = network.jitter_seconds = 0;
  for (wire::LinkOverride& link : network.links) link.latency_seconds.reset();
  return network;
}

/// Bytes of a subspace block with ranks r and 2 r.
int64_t subspace_block_bytes(FrameFormat format, int64_t rank, int64_t tokens, int64_t angles) {
  return codec::BlockLayout{
      .format = format, .num_tokens = tokens, .widths = {rank, 2 * rank}, .num_angles = angles}
      .block_bytes();
}

/// The best use of so many bytes a block: as many bits as fit, then as many coordinates.
std::string proposal_for(const PlanInputs& inputs, int64_t tokens, double block_bytes) {
  const int64_t width = inputs.model.kv_width();
  for (const FrameFormat format : {FrameFormat::bf16, FrameFormat::int8}) {
    const auto plain = static_cast<double>(2 * frame_bytes(format, tokens, width));
    if (plain > block_bytes) continue;
    return fmt::format("codec {}, wire_dtype {}: no subspaces are needed",
                       format == FrameFormat::bf16 ? "none" : "quantize",
                       to_string(format));
  }
  const codec::RotationOptions& rotation = inputs.compression.rotation;
  const int64_t angles = rotation.kind == codec::RotationKind::none ? 0 : rotation.generators;
  const auto largest_rank = [&](FrameFormat format) {
    int64_t rank = 0;
    while (2 * (rank + 1) <= width && static_cast<double>(subspace_block_bytes(
                                          format, rank + 1, tokens, angles)) <= block_bytes) {
      ++rank;
    }
    return rank;
  };
  // 6 % and 12 % of the width lose nothing (docs/measurements.md): beyond that bits are worth more.
  const int64_t enough = std::max<int64_t>(1, std::llround(0.06 * static_cast<double>(width)));
  const bool int8_is_enough = largest_rank(FrameFormat::int8) >= enough;
  const FrameFormat format = int8_is_enough ? FrameFormat::int8 : FrameFormat::int4;
  const int64_t rank = largest_rank(format);
  if (rank == 0) return "none: not even one coordinate fits";
  return fmt::format(
      "codec subspace, key_rank {}, value_rank {}, wire_dtype {}{}",
      rank,
      2 * rank,
      to_string(format),
      rank < enough
          ? fmt::format(" (below {} + {}, where quality was measured)", enough, 2 * enough)
          : "");
}

}  // namespace

struct Planner::Costs {
  OperationCosts operations;
};

int64_t StepPlan::memory_bytes() const {
  int64_t sum = 0;
  for (const auto& entry : memory) sum += entry.second;
  return sum;
}

Planner::Planner(const PlanInputs& inputs) : inputs_(inputs) {
  SUBRING_CHECK(inputs.num_ranks <= wire::kMaxShapedRanks,
                ErrorKind::config,
                "plan is for up to {} ranks, not {}",
                wire::kMaxShapedRanks,
                inputs.num_ranks);
  const mesh::Degrees degrees = mesh::resolve_degrees(inputs.parallelism, inputs.num_ranks);
  mesh::make_chunk_map(inputs.parallelism, degrees.cp, inputs.seq_len, 0);
  costs_.reset(new Costs{{inputs.device, inputs.backend, inputs.num_ranks}});
}

Planner::~Planner() = default;

void Planner::end_measuring() { costs_->operations.end_neighbours(); }

CompressionOptions Planner::uncompressed() const {
  CompressionOptions options = inputs_.compression;
  options.codec = Codec::none;
  options.wire_dtype = FrameFormat::bf16;
  return options;
}

StepPlan Planner::step(const CompressionOptions& compression,
                       const NetworkOptions& network,
                       double kv_scale) {
  PlanInputs inputs = inputs_;
  inputs.compression = compression;
  inputs.network = network;
  VirtualCluster cluster(network, inputs.num_ranks, kv_scale);
  std::vector<RankRehearsal> ranks(static_cast<size_t>(inputs.num_ranks));
  cluster.run([&](VirtualRank& rank) {
    ranks[static_cast<size_t>(rank.rank())] = rehearse_step(inputs, costs_->operations, rank);
  });

  StepPlan plan{.block_bytes = ranks[0].block_bytes,
                .chunk_tokens = ranks[0].chunk_tokens,
                .memory = ranks[0].memory};
  const int64_t num_sequences =
      inputs.batch_size / mesh::resolve_degrees(inputs.parallelism, inputs.num_ranks).dp;
  const auto share = 1.0 / static_cast<double>(ranks.size());
  double busiest_bytes = 0;
  for (const RankRehearsal& rank : ranks) {
    const RankSums sums(rank, num_sequences, inputs.weight_sync);
    plan.forward_seconds += share * sums.forward.computed;
    plan.backward_seconds += share * sums.backward.computed;
    plan.update_seconds += share * sums.update.computed;
    plan.forward_wait += share * sums.forward.waited;
    plan.backward_wait += share * sums.backward.waited;
    plan.sync_wait += share * sums.update.waited;
    double kv_bytes = 0;
    for (size_t kind = 0; kind < plan.bytes.size(); ++kind) {
      const bool is_kv = kind == static_cast<size_t>(TrafficKind::kv_forward) ||
                         kind == static_cast<size_t>(TrafficKind::kv_backward);
      plan.bytes[kind] += is_kv ? num_sequences * rank.kv_bytes[kind] : rank.bytes[kind];
      if (is_kv) kv_bytes += static_cast<double>(num_sequences * rank.kv_bytes[kind]);
    }
    busiest_bytes = std::max(busiest_bytes, kv_bytes);
    plan.seconds = std::max(plan.seconds, sums.seconds());
    if (inputs.weight_sync.overlap) {
      const double link_seconds =
          sums.average_seconds + busiest_uplink_seconds(network, kv_scale * busiest_bytes);
      plan.sync_wait += share * std::max(0.0, link_seconds - sums.seconds());
      plan.seconds = std::max(plan.seconds, link_seconds);
    }
  }
  if (inputs.weight_sync.method == sync::SyncMethod::average) {
    plan.bytes[static_cast<size_t>(TrafficKind::weights)] /= inputs.weight_sync.every;
  }
  return plan;
}

std::string Planner::limit(const StepPlan& plan) {
  if (static_cast<double>(plan.memory_bytes()) > inputs_.device.memory_bytes) return "memory";
  if (plan.wait_seconds() < 0.05 * plan.seconds) return "compute";
  const NetworkOptions& network = inputs_.network;
  const auto gain = [&](const NetworkOptions& better) {
    return plan.seconds - step(inputs_.compression, better).seconds;
  };
  // A rank without a limit of its own gets what the others have on its other side.
  const auto unlimited = [&](bool up, bool down) {
    NetworkOptions better = network;
    better.ranks.clear();
    for (int rank = 0; rank < inputs_.num_ranks; ++rank) {
      wire::RankBandwidth bandwidth{.rank = rank, .up = {}, .down = {}};
      for (const wire::RankBandwidth& old : network.ranks) {
        if (old.rank == rank) bandwidth = old;
      }
      if (up) bandwidth.up = wire::kUnlimited;
      if (down) bandwidth.down = wire::kUnlimited;
      better.ranks.push_back(bandwidth);
    }
    if (up && down) {
      for (wire::LinkOverride& link : better.links) link.bandwidth.reset();
    }
    return better;
  };
  const double of_latency = gain(without_latency(network)), of_both = gain(unlimited(true, true));
  if (std::max(of_latency, of_both) < 0.05 * plan.seconds) return "compute (uneven over ranks)";
  if (of_latency > of_both) return "latency";
  if (gain(unlimited(true, false)) > 0.5 * of_both) return "uplink";
  if (gain(unlimited(false, true)) > 0.5 * of_both) return "downlink";
  return "uplink and downlink alike";
}

HiddenCost Planner::hidden_cost(const NetworkOptions& network) {
  constexpr double kSmallest = 1e-4, kLargest = 1e3;
  constexpr int kHalvings = 10;
  const CompressionOptions& compression = inputs_.compression;
  const StepPlan free = step(compression, network, 0);
  const double longest = free.seconds + 0.02 * free.compute_seconds();
  double low = std::log(kSmallest), high = std::log(kLargest);
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    const bool hides = step(compression, network, std::exp(middle)).seconds <= longest;
    (hides ? low : high) = middle;
  }
  const double block_bytes = std::exp(low) * static_cast<double>(free.block_bytes);
  return {.bits = 8 * block_bytes / static_cast<double>(free.chunk_tokens),
          .proposal = proposal_for(inputs_, free.chunk_tokens, block_bytes),
          .latency_seconds = free.seconds - step(compression, without_latency(network), 0).seconds};
}

std::vector<double> bandwidth_grid(double first, double last) {
  std::vector<double> grid{first};
  const double decade = std::pow(10.0, std::floor(std::log10(first)));
  for (double tens = decade; tens < last; tens *= 10) {
    for (const double bandwidth : {tens, 3 * tens}) {
      if (bandwidth > 1.001 * first && bandwidth < 0.999 * last) grid.push_back(bandwidth);
    }
  }
  if (last > first) grid.push_back(last);
  return grid;
}

}  // namespace subring::report
