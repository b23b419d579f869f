#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "subring/attention/context_attention.hpp"
#include "subring/backend/backend.hpp"
#include "subring/codec/block_codec.hpp"
#include "subring/model/activations.hpp"
#include "subring/model/options.hpp"
#include "subring/model/parameters.hpp"

namespace subring::model {

/// Which form of K and V travels: plain, or what the codec makes of them (coordinates in subspaces,
/// kept entries, few bits).
enum class KvForm { plain, subspace };

/// One rank's part of a Llama-3 style transformer over one sequence at a time. Rows of every tensor
/// are the tokens of this rank's chunks, ascending; positions are global.
///
/// forward(), then loss_and_gradient() and backward(); or forward() and loss(). All of them are
/// collective over the context-parallel group except the loss.
class Transformer {
 public:
  Transformer(Backend& backend,
              const ModelOptions& model,
              const codec::CompressionOptions& compression,
              const attention::ContextShape& context,
              uint64_t seed);

  ParameterSet& parameters() { return parameters_; }
  /// The memory of activations, scratch and codecs.
  std::vector<const Arena*> arenas() const;

  void set_chunks(const wire::Group& group, const ring::ChunkMap& map);
  /// @throws Error{shape}  another form than plain with codec none
  void set_kv_form(KvForm form);
  KvForm kv_form() const { return kv_form_; }
  /// What a block looks like on the wire, the same in every layer.
  const codec::BlockLayout& layout_of(KvForm form) const { return codecs(form).front()->layout(); }

  /// Called with (layer, x, k, v) in each forward pass, some chunks at a time: attention's
  /// normalised input [tokens, d], plain k and v before RoPE [tokens, e]; may be empty.
  using KvObserver = std::function<void(int64_t, ConstView, ConstView, ConstView)>;
  void set_kv_observer(KvObserver observer) { observer_ = std::move(observer); }

  /// @param tokens  [n] of this rank's chunks
  void forward(std::span<const int32_t> tokens, Stream& stream);
  /// Sum of the losses of this rank's tokens, in nats. @param labels  [n], -1 = ignored
  double loss(std::span<const int32_t> labels, Stream& stream);
  /// The same; also starts the backward pass. @param scale  of the gradient: 1 / valid tokens of
  /// the whole batch
  double loss_and_gradient(std::span<const int32_t> labels, float scale, Stream& stream);
  /// Accumulates all gradients. @param rounding_seed  another one for each sequence and step
  void backward(uint64_t rounding_seed, Stream& stream);

  /// Lets the blocks under way proceed; to be called now and then during forward() and backward().
  void poll() { attention_->poll(); }

  /// [n, d] normalised output of the last block.
  ConstView final_hidden() const { return activations_.final_in; }
  /// [n] loss of each token, after loss() or loss_and_gradient().
  ConstView token_losses() const { return activations_.losses; }

 private:
  const std::vector<std::unique_ptr<codec::BlockCodec>>& codecs(KvForm form) const {
    return form == KvForm::plain ? plain_codecs_ : compressed_codecs_;
  }
  void make_codecs(const codec::CompressionOptions& compression, uint64_t seed);
  std::unique_ptr<codec::BlockCodec> make_codec(FrameFormat format,
                                                std::unique_ptr<codec::BlockProjection> projection,
                                                int64_t kept = 0);
  void add_plain_codecs(std::vector<std::unique_ptr<codec::BlockCodec>>& codecs,
                        FrameFormat format,
                        int64_t kept);
  void add_subspace_codecs(const codec::CompressionOptions& compression, uint64_t seed);
  void add_latent_codecs(const codec::CompressionOptions& compression);
  attention::CodecLimits codec_limits() const;
  attention::LayerAttention attention_of(int64_t layer);
  attention::ChunkRange all_chunks() const { return {0, context_.num_owned_chunks}; }
  /// Rows of a view of all of this rank's tokens; and of what a block computes.
  View rows(View view, attention::ChunkRange chunks) const;
  BlockActivations block_rows(int64_t layer, attention::ChunkRange chunks) const;
  void rope_queries(RopeDirection direction, attention::ChunkRange chunks, View q, Stream& stream);

  void enter_block(int64_t layer, attention::ChunkRange chunks, Stream& stream);
  void leave_block(int64_t layer, attention::ChunkRange chunks, Stream& stream);
  void key_value_inputs(int64_t layer, attention::ChunkRange chunks, Stream& stream);
  void query_inputs(int64_t layer, attention::ChunkRange chunks, Stream& stream);
  void mlp_inputs(int64_t layer, attention::ChunkRange chunks, Stream& stream);

  void leave_block_backward(int64_t layer, attention::ChunkRange chunks, Stream& stream);
  void attention_backward(int64_t layer, uint64_t rounding_seed, Stream& stream);
  void query_backward(int64_t layer, Stream& stream);
  void deferred_weight_gradients(int64_t layer, Stream& stream);
  void enter_block_backward(int64_t layer, attention::ChunkRange chunks, Stream& stream);
  enum class HeadWork { loss, loss_and_gradient };
  double head(std::span<const int32_t> labels, float scale, HeadWork work, Stream& stream);

  /// y [n, d] = RMSNorm of x, rstd [n].
  void norm_forward(ConstView x, const WeightPair& weight, View y, View rstd, Stream& stream);
  /// y = x W^T.
  void linear_forward(ConstView x, const WeightPair& weight, View y, Write write, Stream& stream);
  /// d_x = d_y W per `write`.
  void input_gradient(
      ConstView d_y, const WeightPair& weight, View d_x, Write write, Stream& stream);
  /// dW += d_y^T x.
  void weight_gradient(ConstView d_y, ConstView x, const WeightPair& weight, Stream& stream);
  /// Both.
  void linear_backward(
      ConstView d_y, ConstView x, const WeightPair& weight, View d_x, Write write, Stream& stream);

  Backend& backend_;
  ModelOptions model_;
  attention::ContextShape context_;
  ParameterSet parameters_;
  KvForm kv_form_ = KvForm::plain;
  std::vector<std::unique_ptr<codec::BlockCodec>> plain_codecs_;
  std::vector<std::unique_ptr<codec::BlockCodec>> compressed_codecs_;
  std::unique_ptr<Arena> codec_arena_;  // scratch of the codecs, planes of the subspaces
  std::unique_ptr<Arena> arena_;        // activations and scratch
  Activations activations_;
  std::unique_ptr<attention::ContextAttention> attention_;
  ring::ChunkMap map_;
  std::vector<int> owned_;
  KvObserver observer_;
};

}  // namespace subring::model
