#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "subring/attention/angle_exchange.hpp"
#include "subring/backend/backend.hpp"
#include "subring/codec/block_codec.hpp"
#include "subring/core/arena.hpp"
#include "subring/ring/exchange.hpp"

namespace subring::attention {

/// What a query reads of keys of its own chunk: their compressed form as everyone else, or plain K
/// and V ("exact at home", method.md section 2b).
enum class LocalForm { compressed, exact };

/// Attention over one sequence that is cut into chunks.
struct ContextShape {
  int64_t hidden_size = 0;
  int64_t num_query_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  double rope_theta = 500000.0;
  int64_t chunk_tokens = 0;
  int num_chunks = 0;
  int num_owned_chunks = 0;  ///< by each rank
  LocalForm local_form = LocalForm::exact;
  AngleSource angle_source = AngleSource::chunk;

  int64_t query_width() const { return num_query_heads * head_dim; }
  int64_t kv_width() const { return num_kv_heads * head_dim; }
  int64_t num_owned_tokens() const { return chunk_tokens * num_owned_chunks; }
};

/// The largest of what any codec in use needs.
struct CodecLimits {
  int64_t block_bytes = 0;
  int64_t num_elements = 0;
  int64_t num_angles = 0;

  void include(const codec::BlockLayout& layout);
};

/// What attention of one layer keeps from forward to backward. n: this rank's tokens, L its chunks.
struct SavedAttention {
  View out;                  ///< [n, Hq * D], normalised
  View lse;                  ///< [L, Hq, n / L]
  View means;                ///< [L, d] mean input of each owned chunk
  View theta;                ///< angles of each owned chunk, memory for [L, 2, k]
  std::vector<View> blocks;  ///< [C] u8: the block of every chunk that this rank has seen

  static SavedAttention allocate(Arena& arena,
                                 const ContextShape& shape,
                                 const CodecLimits& limits);
};

/// Inputs of one layer's attention on this rank; rows are the owned chunks, ascending.
struct AttentionInputs {
  ConstView x;  ///< [n, d] input of the K and V projections; a latent is made of it, its chunk
                ///< means steer the subspaces
  ConstView q;  ///< [n, Hq * D], RoPE applied
  ConstView k;  ///< [n, e] plain keys, before RoPE
  ConstView v;  ///< [n, e]
};

struct AttentionGradients {
  ConstView d_out;  ///< [n, Hq * D] gradient of the attention output
  View d_x;         ///< [n, d], accumulated: the codec's share (of angles, of a latent)
  View d_q;         ///< [n, Hq * D], overwritten; of the queries after RoPE
  View d_k;         ///< [n, e], overwritten
  View d_v;         ///< [n, e], overwritten
};

/// One layer's attention on this rank, the same in all calls of a pass.
struct LayerAttention {
  int64_t index = 0;  ///< of the layer
  codec::BlockCodec& codec;
  AttentionInputs inputs;
  SavedAttention& saved;
};

/// Causal attention over a sequence whose chunks are spread over the ranks of a group.
///
/// Queries stay; blocks of K and V travel as a codec's coordinates (method.md sections 2 and 3).
/// Only pairs of a query chunk and an earlier or equal key chunk are computed. Up to rounding the
/// result depends on the chunks alone, not on the ranks. One instance serves all layers.
/// Cost: attention of the causal half, plus per pair of chunks and reader the codec's decode.
///
/// Blocks travel while the caller computes, and a chunk that is done need not wait for the others:
/// forward, a chunk of the next layer may be sent while this layer is not finished; backward, the
/// caller computes between the halves what does not need the gradients of K and V, and goes on with
/// a chunk as soon as its own are there.
class ContextAttention {
 public:
  /// @param arena  gets the scratch of all layers
  ContextAttention(Backend& backend,
                   const ContextShape& shape,
                   const CodecLimits& limits,
                   Arena& arena);

  /// Which rank holds what from now on. @param group  the context-parallel group
  void set_chunks(const wire::Group& group, const ring::ChunkMap& map);

  /// Called with chunks that are done.
  using ChunksDone = std::function<void(ChunkRange)>;

  /// Makes room for the blocks of others; the next layer's may start before this one finishes.
  void start_forward(const LayerAttention& layer);
  /// Encodes K and V of some chunks (ascending, each once) and sends them off; their rows of x, k
  /// and v are read, of q not yet. Collective over the group, as all that follows.
  /// @throws Error{wire}
  void send_forward(const LayerAttention& layer, ChunkRange chunks, Stream& stream);
  /// After all chunks are sent: saved.out = attention output. @param done  these rows of it are
  /// final: called in ascending order, early for chunks that other ranks wait for
  void finish_forward(const LayerAttention& layer, const ChunksDone& done, Stream& stream);

  /// Sends the gradients of others' blocks home; then d_q is complete.
  /// @param rounding_seed  for gradients on the wire; another one for each layer, sequence and step
  void start_backward(const LayerAttention& layer,
                      const AttentionGradients& gradients,
                      uint64_t rounding_seed,
                      Stream& stream);
  /// d_x, d_k, d_v; accumulates the codec's parameter gradients. @param done  these rows of the
  /// gradients are final: called in descending order, before the wait for another chunk's
  void finish_backward(const LayerAttention& layer,
                       const AttentionGradients& gradients,
                       const ChunksDone& done,
                       Stream& stream);
  /// Lets blocks proceed; to be called now and then while other work is done.
  void poll();

 private:
  // Shares of gradients that are ready before what they are to be added to has come: one more than
  // the one being computed hides a hop's travel behind the next share.
  static constexpr int kNumShares = 2;

  struct ForwardPass;
  struct BackwardPass;

  /// One layer's transfers under way.
  struct Flight {
    std::unique_ptr<ring::RingExchange> exchange;
    AngleTransit angles;
  };

  Flight& flight_of(const LayerAttention& layer) {
    return flights_[static_cast<size_t>(layer.index) % flights_.size()];
  }
  const ring::Schedule& schedule() const { return flights_.front().exchange->schedule(); }
  const std::vector<int>& owned() const { return schedule().owned; }
  /// Rows of the owned chunk `index` in a view of all of this rank's tokens.
  template <typename AnyView>
  AnyView chunk_rows(AnyView view, int64_t index) const {
    return view.rows(index * shape_.chunk_tokens, shape_.chunk_tokens);
  }
  /// Memory for the largest number of angles, as the [L, 2, k] of this codec; and one chunk of it.
  View all_theta(const codec::BlockCodec& codec, View memory) const;
  View theta_of(const codec::BlockCodec& codec, View memory, int64_t index) const;
  AttentionShape block_shape(int query_chunk, int key_chunk) const;
  void rope_keys(int chunk, RopeDirection direction, View k, Stream& stream);

  codec::BlockSource block_source(const AttentionInputs& inputs, int64_t index) const {
    return {chunk_rows(inputs.x, index), chunk_rows(inputs.k, index), chunk_rows(inputs.v, index)};
  }

  bool reads_compressed(int query_chunk, int key_chunk) const;
  bool read_compressed_here(int key_chunk) const;
  void load_exact(const AttentionInputs& inputs, int64_t index, Stream& stream);
  codec::BlockTensors load_compressed(codec::BlockCodec& codec,
                                      const SavedAttention& saved,
                                      int chunk,
                                      Stream& stream);
  void compute_angles(const LayerAttention& layer, ChunkRange chunks, Stream& stream);
  codec::BlockTensors home(const codec::BlockCodec& codec, int64_t index) const;
  void encode_backward(const LayerAttention& layer,
                       const AttentionGradients& gradients,
                       int64_t index,
                       Stream& stream);
  void angles_backward(const LayerAttention& layer,
                       const AttentionGradients& gradients,
                       ChunkRange chunks,
                       Stream& stream);
  ring::BlockSlots slots(const codec::BlockCodec& codec, const std::vector<View>& blocks) const;

  Backend& backend_;
  ContextShape shape_;
  AngleExchange angles_;
  ring::ChunkMap map_;
  std::array<Flight, ring::RingExchange::kNumLanes> flights_;  // layers in turn

  View k_, v_;                // [n / L, e] block being attended to, RoPE on k_
  View d_k_, d_v_;            // [n / L, e]
  View delta_;                // [L, Hq, n / L]
  View d_means_;              // [L, d]
  View d_theta_, transit_;    // memory for [L, 2, k]
  View coordinates_;          // memory for one block's tensors
  std::vector<View> shares_;  // the same: gradients of others' blocks, before they leave
  std::vector<View> home_;    // [L] the same: gradients of the owned chunks
  std::vector<View> incoming_, outgoing_;  // [C] u8: gradient blocks on their way
};

}  // namespace subring::attention
