#include "rehearsal.hpp"

#include <algorithm>

#include "subring/mesh/context.hpp"
#include "subring/mesh/mesh.hpp"
#include "subring/model/transformer.hpp"
#include "subring/sync/weight_sync.hpp"

namespace subring::report {
namespace {

using model::Parameter;
using model::ParameterRole;
using sync::SyncMethod;

constexpr int kNumMoments = 2;
// Virtual time never runs into a deadline of real time.
constexpr std::chrono::duration<double> kNoTimeout{1e6};

class Rehearsal {
 public:
  Rehearsal(const PlanInputs& inputs, OperationCosts& costs, VirtualRank& rank)
      : inputs_(inputs),
        rank_(rank),
        backend_(make_cost_backend(costs, rank)),
        stream_(backend_->make_stream()),
        mesh_(mesh::make_mesh(inputs.parallelism, rank, kNoTimeout)),
        chunks_(mesh::make_chunk_map(inputs.parallelism, mesh_.cp.size(), inputs.seq_len, 0)),
        transformer_(*backend_,
                     inputs.model,
                     inputs.compression,
                     mesh::context_shape(inputs.model,
                                         inputs.compression,
                                         inputs.parallelism,
                                         mesh_.cp.size(),
                                         inputs.seq_len),
                     1) {
    transformer_.set_chunks(mesh_.cp, chunks_);
    if (inputs.compression.codec != codec::Codec::none) {
      transformer_.set_kv_form(model::KvForm::subspace);
    }
    for (auto& arena : moments_) {
      const char* name = &arena == &moments_[0] ? "first moments" : "second moments";
      arena = make_arena(name, backend_->memory(), [&](Arena& memory) {
        memory.allocate(name, DType::f32, {num_weights()});
      });
    }
    backend_->set_poll([this] { transformer_.poll(); });
    rank_.set_idle([this] { transformer_.poll(); });
  }

  RankRehearsal step() {
    RankRehearsal result;
    const auto num_sequences = inputs_.batch_size / mesh_.degrees.dp;
    result.num_sequences = std::min<int64_t>(num_sequences, 2);
    backend_->fill(transformer_.parameters().flat_gradients(), 0, *stream_);
    const std::vector<int32_t> tokens(static_cast<size_t>(inputs_.seq_len / mesh_.cp.size()));
    for (int64_t i = 0; i < result.num_sequences; ++i) {
      transformer_.forward(tokens, *stream_);
      transformer_.loss_and_gradient(tokens, 1, *stream_);
      result.sequences.push_back(mark());
      transformer_.backward(1, *stream_);
      result.sequences.push_back(mark());
      if (i == 0) result.kv_bytes = rank_.sent_bytes();
    }
    const bool averages = inputs_.weight_sync.method == SyncMethod::average;
    if (!averages) exchange_weights();
    result.reduced = mark();
    update();
    result.updated = mark();
    if (averages) exchange_weights();
    result.averaged = mark();
    sum_of(5);  // Trainer::collect
    result.end = mark();
    result.bytes = rank_.sent_bytes();
    result.memory = memory();
    const auto form = transformer_.kv_form();
    result.block_bytes = transformer_.layout_of(form).block_bytes();
    result.chunk_tokens = chunks_.chunk_tokens;
    return result;
  }

 private:
  int64_t num_weights() { return transformer_.parameters().flat_values().num_elements(); }

  Mark mark() const { return {rank_.now(), rank_.compute_seconds(), rank_.waited_seconds()}; }

  void sum_of(size_t count) {
    std::vector<double> numbers(count);
    wire::all_reduce_sum(mesh_.world, std::span(numbers), wire::TrafficKind::other);
  }

  /// Trainer's project_gradients, check_finite and update; the projection of bases is small.
  void update() {
    model::ParameterSet& parameters = transformer_.parameters();
    backend_->squared_norm(parameters.flat_gradients(), *stream_);
    sum_of(3);
    const auto* values = static_cast<const std::byte*>(parameters.flat_values().data);
    for (const Parameter& parameter : parameters.list()) {
      if (parameter.role == ParameterRole::frozen) continue;
      const auto offset = static_cast<const std::byte*>(parameter.value.data) - values;
      const auto moment = [&](const Arena& arena) {
        return View{static_cast<std::byte*>(arena.contents().data) + offset,
                    DType::f32,
                    parameter.value.shape};
      };
      backend_->adamw({},
                      parameter.value,
                      parameter.gradient,
                      moment(*moments_[0]),
                      moment(*moments_[1]),
                      *stream_);
      if (parameter.role == ParameterRole::basis) {
        backend_->orthonormalize(parameter.value, *stream_);
      }
    }
  }

  /// As wire::all_reduce_sum and sync::FrameRing move them, without the numbers. FrameRing has so
  /// many numbers a member under way at once; its frames cost the CPU little beside a step.
  void exchange_weights() {
    const int m = mesh_.world.size();
    if (m == 1) return;
    constexpr int64_t kNumbersUnderWay = 4 * 128 * 1024;
    const bool framed = inputs_.weight_sync.wire_dtype != sync::WeightDtype::fp32;
    const int64_t waves =
        framed ? (num_weights() + kNumbersUnderWay * m - 1) / (kNumbersUnderWay * m) : 1;
    const int64_t num_messages = waves * 2 * (m - 1) * m;
    const int64_t total =
        sync::weight_bytes_of_sync(inputs_.weight_sync, m, num_weights(), kNumMoments);
    // The first message of rank 0 carries what does not divide.
    int64_t size = total / num_messages + (mesh_.world.index == 0 ? total % num_messages : 0);
    const auto envelope = [&](int distance) {
      return wire::Envelope{mesh_.world.neighbour(distance),
                            wire::kFirstCollectiveTag - 1,
                            wire::TrafficKind::weights,
                            "weights"};
    };
    for (int64_t i = 0; i < waves * 2 * (m - 1); ++i) {
      const auto receive = rank_.receive(envelope(-1), {});
      const auto send = rank_.send_bytes(envelope(1), size);
      wire::wait(*receive, envelope(-1), rank_, kNoTimeout);
      wire::wait(*send, envelope(1), rank_, kNoTimeout);
      size = total / num_messages;
    }
  }

  std::map<std::string, int64_t> memory() {
    std::map<std::string, int64_t> bytes;
    const auto add = [&](const std::vector<const Arena*>& arenas) {
      for (const Arena* arena : arenas) {
        for (const auto& [name, size] : arena->report()) bytes[name] += size;
      }
    };
    add(transformer_.parameters().arenas());
    add({moments_[0].get(), moments_[1].get()});
    add(transformer_.arenas());
    const sync::SyncOptions& options = inputs_.weight_sync;
    const bool narrow = options.wire_dtype != sync::WeightDtype::fp32;
    // Vectors of weights that FramedAllReduceSync and AnchoredAverage keep (their headers).
    int64_t vectors = narrow ? 1 : 0;
    if (options.method == SyncMethod::average && (narrow || options.overlap)) {
      vectors += 2;
      if (options.overlap) vectors += options.average_moments ? 5 : 1;
    }
    if (vectors > 0 && mesh_.world.size() > 1) bytes["weight sync"] = 4 * vectors * num_weights();
    return bytes;
  }

  const PlanInputs& inputs_;
  VirtualRank& rank_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  mesh::Mesh mesh_;
  ring::ChunkMap chunks_;
  model::Transformer transformer_;
  std::array<std::unique_ptr<Arena>, kNumMoments> moments_;
};

}  // namespace

RankRehearsal rehearse_step(const PlanInputs& inputs, OperationCosts& costs, VirtualRank& rank) {
  return Rehearsal(inputs, costs, rank).step();
}

}  // namespace subring::report
