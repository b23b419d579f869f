#include "subring/attention/context_attention.hpp"
#include "subring/core/random.hpp"

namespace subring::attention {

/// Everything the pieces of one backward call work on.
struct ContextAttention::BackwardPass {
  ContextAttention& self;
  const LayerAttention& layer;
  const AttentionGradients& gradients;
  uint64_t rounding_seed;
  Stream& stream;

  TraceDetail detail(int key_chunk) const { return {.layer = layer.index, .chunk = key_chunk}; }

  /// Gradients of the block in k_, v_ from the queries of one owned chunk.
  void attend(int64_t query_index, int key_chunk, View d_k, View d_v, Write write) {
    const int query_chunk = self.owned()[static_cast<size_t>(query_index)];
    const Shape rows{self.shape_.num_query_heads, self.shape_.chunk_tokens};
    self.backend_.attention_backward_block(self.block_shape(query_chunk, key_chunk),
                                           self.chunk_rows(layer.inputs.q, query_index),
                                           self.k_,
                                           self.v_,
                                           self.chunk_rows(gradients.d_out, query_index),
                                           layer.saved.lse.rows(query_index, 1).reshape(rows),
                                           self.delta_.rows(query_index, 1).reshape(rows),
                                           self.chunk_rows(gradients.d_q, query_index),
                                           d_k,
                                           d_v,
                                           write,
                                           stream);
  }

  void prepare() {
    self.backend_.fill(gradients.d_q, 0, stream);
    const Shape rows{self.shape_.num_query_heads, self.shape_.chunk_tokens};
    for (size_t i = 0; i < self.owned().size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      const int chunk = self.owned()[i];
      self.backend_.attention_backward_prepare(self.block_shape(chunk, chunk),
                                               self.chunk_rows(layer.saved.out, index),
                                               self.chunk_rows(gradients.d_out, index),
                                               self.delta_.rows(index, 1).reshape(rows),
                                               stream);
    }
  }

  /// This rank's share of a compressed block's gradient, into `share`.
  void share_of(int key_chunk, const codec::BlockTensors& share) {
    const TraceSpan span(stream.trace(), "attend block backward", detail(key_chunk));
    const codec::BlockTensors tensors =
        self.load_compressed(layer.codec, layer.saved, key_chunk, stream);
    Write write = Write::overwrite;
    for (size_t i = 0; i < self.owned().size(); ++i) {
      if (!self.reads_compressed(self.owned()[i], key_chunk)) continue;
      attend(static_cast<int64_t>(i), key_chunk, self.d_k_, self.d_v_, write);
      write = Write::accumulate;
    }
    self.rope_keys(key_chunk, RopeDirection::backward, self.d_k_, stream);
    layer.codec.decode_backward(tensors, self.d_k_, self.d_v_, share, stream);
  }

  codec::BlockTensors share(int buffer) const {
    return codec::BlockTensors::carve(self.shares_[static_cast<size_t>(buffer)],
                                      layer.codec.layout());
  }

  void contribute(const ring::RingExchange::Contribution& step) {
    const TraceSpan span(stream.trace(), "add to gradient", detail(step.chunk));
    const auto chunk = static_cast<size_t>(step.chunk);
    const int64_t bytes = layer.codec.layout().block_bytes();
    const codec::BlockTensors sum = share(step.buffer);
    if (!step.incoming.empty()) {
      layer.codec.unpack(self.incoming_[chunk].rows(0, bytes), sum, Write::accumulate, stream);
    }
    const uint64_t seed = derive_seed(
        rounding_seed, static_cast<uint64_t>(step.chunk), static_cast<uint64_t>(step.distance));
    layer.codec.pack(
        sum, {Rounding::stochastic, seed}, self.outgoing_[chunk].rows(0, bytes), stream);
    stream.synchronize();
  }

  void owned_gradients() {
    for (size_t i = 0; i < self.owned().size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      const int chunk = self.owned()[i];
      const View d_k = self.chunk_rows(gradients.d_k, index);
      const View d_v = self.chunk_rows(gradients.d_v, index);
      if (self.shape_.local_form == LocalForm::exact) {
        const TraceSpan span(stream.trace(), "attend own chunk backward", detail(chunk));
        self.load_exact(layer.inputs, index, stream);
        attend(index, chunk, d_k, d_v, Write::overwrite);
        self.rope_keys(chunk, RopeDirection::backward, d_k, stream);
      } else {
        self.backend_.fill(d_k, 0, stream);
        self.backend_.fill(d_v, 0, stream);
      }
      if (self.read_compressed_here(chunk)) {
        share_of(chunk, self.home(layer.codec, index));
      } else {
        self.backend_.fill(self.home_[i], 0, stream);
      }
    }
  }
};

codec::BlockTensors ContextAttention::home(const codec::BlockCodec& codec, int64_t index) const {
  return codec::BlockTensors::carve(home_[static_cast<size_t>(index)], codec.layout());
}

void ContextAttention::start_backward(const LayerAttention& layer,
                                      const AttentionGradients& gradients,
                                      uint64_t rounding_seed,
                                      Stream& stream) {
  BackwardPass pass{*this, layer, gradients, rounding_seed, stream};
  pass.prepare();
  if (layer.codec.layout().num_angles > 0) backend_.fill(d_means_, 0, stream);
  flight_of(layer).exchange->start_backward(
      slots(layer.codec, incoming_),
      slots(layer.codec, outgoing_),
      {.num_buffers = kNumShares,
       .compute = [&](int chunk, int buffer) { pass.share_of(chunk, pass.share(buffer)); },
       .contribute = [&](const ring::RingExchange::Contribution& step) { pass.contribute(step); },
       .local = [&] { pass.owned_gradients(); }});
}

void ContextAttention::finish_backward(const LayerAttention& layer,
                                       const AttentionGradients& gradients,
                                       const ChunksDone& done,
                                       Stream& stream) {
  Flight& flight = flight_of(layer);
  const int64_t bytes = layer.codec.layout().block_bytes();
  int64_t end = shape_.num_owned_chunks;  // of the chunks that are not done
  int64_t index = end;                    // of the last one whose gradient is home
  const auto report = [&] {
    const ChunkRange chunks{index, end - index};
    if (chunks.count == 0) return;
    angles_backward(layer, gradients, chunks, stream);
    end = index;
    done(chunks);
  };
  while (index > 0) {
    const int chunk = owned()[static_cast<size_t>(index - 1)];
    if (flight.exchange->leaves(chunk)) {
      report();
      flight.exchange->wait_home(chunk);
      layer.codec.unpack(incoming_[static_cast<size_t>(chunk)].rows(0, bytes),
                         home(layer.codec, index - 1),
                         Write::accumulate,
                         stream);
    }
    --index;
    encode_backward(layer, gradients, index, stream);
  }
  report();
  flight.exchange->finish_backward();
  angles_.finish(flight.angles);
}

void ContextAttention::encode_backward(const LayerAttention& layer,
                                       const AttentionGradients& gradients,
                                       int64_t index,
                                       Stream& stream) {
  const int chunk = owned()[static_cast<size_t>(index)];
  const TraceSpan span(stream.trace(), "encode backward", {.layer = layer.index, .chunk = chunk});
  const codec::BlockTensors gradient = home(layer.codec, index);
  layer.codec.encode_backward(block_source(layer.inputs, index),
                              theta_of(layer.codec, layer.saved.theta, index),
                              gradient,
                              {.d_x = chunk_rows(gradients.d_x, index),
                               .d_k = chunk_rows(gradients.d_k, index),
                               .d_v = chunk_rows(gradients.d_v, index)},
                              stream);
  if (layer.codec.layout().num_angles > 0) {
    backend_.copy(gradient.theta, theta_of(layer.codec, d_theta_, index), stream);
  }
}

void ContextAttention::angles_backward(const LayerAttention& layer,
                                       const AttentionGradients& gradients,
                                       ChunkRange chunks,
                                       Stream& stream) {
  if (layer.codec.layout().num_angles == 0) return;
  angles_.backward(layer.codec,
                   layer.saved.means,
                   chunks,
                   all_theta(layer.codec, d_theta_),
                   d_means_,
                   flight_of(layer).angles,
                   stream);
  const float scale = 1.0F / static_cast<float>(shape_.chunk_tokens);
  for (int64_t i = chunks.first; i < chunks.end(); ++i) {
    backend_.add_row(d_means_.rows(i, 1).reshape({shape_.hidden_size}),
                     scale,
                     chunk_rows(gradients.d_x, i),
                     stream);
  }
}

}  // namespace subring::attention
