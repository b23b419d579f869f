#pragma once

#include <cstdint>
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
  ConstView x;  ///< [n, d] input of the K and V projections; its chunk means steer the subspaces
  ConstView q;  ///< [n, Hq * D], RoPE applied
  ConstView k;  ///< [n, e] plain keys, before RoPE
  ConstView v;  ///< [n, e]
};

struct AttentionGradients {
  ConstView d_out;  ///< [n, Hq * D] gradient of the attention output
  View d_x;         ///< [n, d], accumulated (the angles' share only)
  View d_q;         ///< [n, Hq * D], overwritten; of the queries after RoPE
  View d_k;         ///< [n, e], overwritten
  View d_v;         ///< [n, e], overwritten
};

/// One layer's attention on this rank; the same in both halves of a pass.
struct LayerAttention {
  codec::BlockCodec& codec;
  AttentionInputs inputs;
  SavedAttention& saved;
};

/// Causal attention over a sequence whose chunks are spread over the ranks of a group.
///
/// Queries stay; blocks of K and V travel as a codec's coordinates (method.md sections 2 and 3).
/// Only pairs of a query chunk and an earlier or equal key chunk are computed. Up to rounding the
/// result depends on the chunks alone, not on the ranks. One instance serves all layers.
/// Each direction has two halves: what the caller computes between them hides the blocks' travel.
/// Cost: attention of the causal half, plus per pair of chunks and reader the codec's decode.
class ContextAttention {
 public:
  /// @param arena  gets the scratch of all layers
  ContextAttention(Backend& backend,
                   const ContextShape& shape,
                   const CodecLimits& limits,
                   Arena& arena);

  /// Which rank holds what from now on. @param group  the context-parallel group
  void set_chunks(const wire::Group& group, const ring::ChunkMap& map);

  /// Encodes K and V and sends them off; the queries are not read yet. Collective over the group,
  /// as all that follows. @throws Error{wire}
  void start_forward(const LayerAttention& layer, Stream& stream);
  /// saved.out = attention output.
  void finish_forward(const LayerAttention& layer, Stream& stream);
  /// Sends the gradients of others' blocks home; then d_q is complete.
  /// @param rounding_seed  for gradients on the wire; another one for each layer, sequence and step
  void start_backward(const LayerAttention& layer,
                      const AttentionGradients& gradients,
                      uint64_t rounding_seed,
                      Stream& stream);
  /// d_x, d_k, d_v; accumulates the codec's parameter gradients.
  void finish_backward(const LayerAttention& layer,
                       const AttentionGradients& gradients,
                       Stream& stream);
  /// Lets blocks proceed; to be called now and then while other work is done.
  void poll();

 private:
  // Shares of gradients that are ready before what they are to be added to has come: one more than
  // the one being computed hides a hop's travel behind the next share.
  static constexpr int kNumShares = 2;

  struct ForwardPass;
  struct BackwardPass;

  const std::vector<int>& owned() const { return exchange_->schedule().owned; }
  int64_t index_of(int chunk) const;
  /// Rows of the owned chunk `index` in a view of all of this rank's tokens.
  template <typename AnyView>
  AnyView chunk_rows(AnyView view, int64_t index) const;
  /// Memory for the largest number of angles, as the [L, 2, k] of this codec; and one chunk of it.
  View all_theta(const codec::BlockCodec& codec, View memory) const;
  View theta_of(const codec::BlockCodec& codec, View memory, int64_t index) const;
  AttentionShape block_shape(int query_chunk, int key_chunk) const;
  void rope_keys(int chunk, RopeDirection direction, View k, Stream& stream);

  bool reads_compressed(int query_chunk, int key_chunk) const;
  bool read_compressed_here(int key_chunk) const;
  bool leaves(int chunk) const;
  void load_exact(const AttentionInputs& inputs, int64_t index, Stream& stream);
  codec::BlockTensors load_compressed(codec::BlockCodec& codec,
                                      const SavedAttention& saved,
                                      int chunk,
                                      Stream& stream);
  void compute_angles(codec::BlockCodec& codec,
                      const AttentionInputs& inputs,
                      SavedAttention& saved,
                      Stream& stream);
  void encode_owned(codec::BlockCodec& codec,
                    const AttentionInputs& inputs,
                    SavedAttention& saved,
                    Stream& stream);
  codec::BlockTensors home(const codec::BlockCodec& codec, int64_t index) const;
  void encode_backward(const LayerAttention& layer,
                       const AttentionGradients& gradients,
                       Stream& stream);
  ring::BlockSlots slots(const codec::BlockCodec& codec, const std::vector<View>& blocks) const;

  Backend& backend_;
  ContextShape shape_;
  AngleExchange angles_;
  ring::ChunkMap map_;
  std::unique_ptr<ring::RingExchange> exchange_;

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
