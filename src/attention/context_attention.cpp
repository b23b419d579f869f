#include "subring/attention/context_attention.hpp"

#include <algorithm>
#include <limits>

#include "subring/core/random.hpp"

namespace subring::attention {

void CodecLimits::include(const codec::BlockLayout& layout) {
  block_bytes = std::max(block_bytes, layout.block_bytes());
  num_elements = std::max(num_elements, layout.num_elements());
  num_angles = std::max(num_angles, layout.num_angles);
}

SavedAttention SavedAttention::allocate(Arena& arena,
                                        const ContextShape& shape,
                                        const CodecLimits& limits) {
  const int64_t owned = shape.num_owned_chunks;
  SavedAttention saved;
  saved.out = arena.allocate(
      "attention output", DType::f32, {shape.num_owned_tokens(), shape.query_width()});
  saved.lse = arena.allocate(
      "attention lse", DType::f32, {owned, shape.num_query_heads, shape.chunk_tokens});
  saved.means = arena.allocate("chunk means", DType::f32, {owned, shape.hidden_size});
  saved.theta = arena.allocate("chunk angles", DType::f32, {owned, 2, limits.num_angles});
  for (int chunk = 0; chunk < shape.num_chunks; ++chunk) {
    saved.blocks.push_back(arena.allocate("kv blocks", DType::u8, {limits.block_bytes}));
  }
  return saved;
}

/// Everything the pieces of one forward call work on.
struct ContextAttention::ForwardPass {
  ContextAttention& self;
  const LayerAttention& layer;
  Stream& stream;

  /// Folds the block in k_, v_ into the queries of one owned chunk.
  void attend(int64_t query_index, int key_chunk) {
    const int query_chunk = self.owned()[static_cast<size_t>(query_index)];
    const View lse = layer.saved.lse.rows(query_index, 1)
                         .reshape({self.shape_.num_query_heads, self.shape_.chunk_tokens});
    self.backend_.attention_forward_block(self.block_shape(query_chunk, key_chunk),
                                          self.chunk_rows(layer.inputs.q, query_index),
                                          self.k_,
                                          self.v_,
                                          self.chunk_rows(layer.saved.out, query_index),
                                          lse,
                                          stream);
  }

  void attend_compressed(int key_chunk) {
    if (!self.read_compressed_here(key_chunk)) return;
    self.load_compressed(layer.codec, layer.saved, key_chunk, stream);
    for (size_t i = 0; i < self.owned().size(); ++i) {
      if (self.reads_compressed(self.owned()[i], key_chunk)) {
        attend(static_cast<int64_t>(i), key_chunk);
      }
    }
  }

  void attend_owned() {
    for (size_t i = 0; i < self.owned().size(); ++i) {
      const int chunk = self.owned()[i];
      if (self.shape_.local_form == LocalForm::exact) {
        self.load_exact(layer.inputs, static_cast<int64_t>(i), stream);
        attend(static_cast<int64_t>(i), chunk);
      }
      attend_compressed(chunk);
    }
  }
};

/// Everything the pieces of one backward call work on.
struct ContextAttention::BackwardPass {
  ContextAttention& self;
  const LayerAttention& layer;
  const AttentionGradients& gradients;
  uint64_t rounding_seed;
  Stream& stream;

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

ContextAttention::ContextAttention(Backend& backend,
                                   const ContextShape& shape,
                                   const CodecLimits& limits,
                                   Arena& arena)
    : backend_(backend), shape_(shape), angles_(backend, shape.angle_source) {
  const int64_t owned_chunks = shape.num_owned_chunks;
  const Shape chunk_kv{shape.chunk_tokens, shape.kv_width()};
  const Shape angles{owned_chunks, 2, limits.num_angles};
  k_ = arena.allocate("attention scratch", DType::f32, chunk_kv);
  v_ = arena.allocate("attention scratch", DType::f32, chunk_kv);
  d_k_ = arena.allocate("attention scratch", DType::f32, chunk_kv);
  d_v_ = arena.allocate("attention scratch", DType::f32, chunk_kv);
  delta_ = arena.allocate(
      "attention scratch", DType::f32, {owned_chunks, shape.num_query_heads, shape.chunk_tokens});
  d_means_ = arena.allocate("angle scratch", DType::f32, {owned_chunks, shape.hidden_size});
  d_theta_ = arena.allocate("angle scratch", DType::f32, angles);
  transit_ = arena.allocate("angle scratch", DType::f32, angles);
  coordinates_ = arena.allocate("coordinates", DType::f32, {limits.num_elements});
  for (int i = 0; i < kNumShares; ++i) {
    shares_.push_back(arena.allocate("coordinates", DType::f32, {limits.num_elements}));
  }
  for (int64_t i = 0; i < owned_chunks; ++i) {
    home_.push_back(arena.allocate("coordinates", DType::f32, {limits.num_elements}));
  }
  for (int chunk = 0; chunk < shape.num_chunks; ++chunk) {
    incoming_.push_back(arena.allocate("gradient blocks", DType::u8, {limits.block_bytes}));
    outgoing_.push_back(arena.allocate("gradient blocks", DType::u8, {limits.block_bytes}));
  }
}

void ContextAttention::set_chunks(const wire::Group& group, const ring::ChunkMap& map) {
  SUBRING_CHECK(map.num_chunks() == shape_.num_chunks && map.chunk_tokens == shape_.chunk_tokens,
                ErrorKind::shape,
                "a map of {} chunks of {} tokens where {} of {} are laid out",
                map.num_chunks(),
                map.chunk_tokens,
                shape_.num_chunks,
                shape_.chunk_tokens);
  map_ = map;
  angles_.set_chunks(group, map);
  exchange_ = std::make_unique<ring::RingExchange>(group, ring::make_schedule(map, group.index));
  SUBRING_CHECK(static_cast<int>(owned().size()) == shape_.num_owned_chunks,
                ErrorKind::shape,
                "{} owned chunks where {} are laid out",
                owned().size(),
                shape_.num_owned_chunks);
}

int64_t ContextAttention::index_of(int chunk) const {
  return std::find(owned().begin(), owned().end(), chunk) - owned().begin();
}

template <typename AnyView>
AnyView ContextAttention::chunk_rows(AnyView view, int64_t index) const {
  return view.rows(index * shape_.chunk_tokens, shape_.chunk_tokens);
}

View ContextAttention::all_theta(const codec::BlockCodec& codec, View memory) const {
  const Shape shape{shape_.num_owned_chunks, 2, codec.layout().num_angles};
  return memory.reshape({memory.num_elements()}).rows(0, shape.num_elements()).reshape(shape);
}

View ContextAttention::theta_of(const codec::BlockCodec& codec, View memory, int64_t index) const {
  return all_theta(codec, memory).rows(index, 1).reshape({2, codec.layout().num_angles});
}

AttentionShape ContextAttention::block_shape(int query_chunk, int key_chunk) const {
  return {.num_queries = shape_.chunk_tokens,
          .num_keys = shape_.chunk_tokens,
          .num_query_heads = shape_.num_query_heads,
          .num_kv_heads = shape_.num_kv_heads,
          .head_dim = shape_.head_dim,
          .first_query_position = map_.first_position(query_chunk),
          .first_key_position = map_.first_position(key_chunk)};
}

void ContextAttention::rope_keys(int chunk, RopeDirection direction, View k, Stream& stream) {
  backend_.rope({.num_heads = shape_.num_kv_heads,
                 .head_dim = shape_.head_dim,
                 .first_position = map_.first_position(chunk),
                 .theta = shape_.rope_theta},
                direction,
                k,
                stream);
}

bool ContextAttention::reads_compressed(int query_chunk, int key_chunk) const {
  return query_chunk > key_chunk ||
         (query_chunk == key_chunk && shape_.local_form == LocalForm::compressed);
}

bool ContextAttention::read_compressed_here(int key_chunk) const {
  return std::any_of(owned().begin(), owned().end(), [&](int chunk) {
    return reads_compressed(chunk, key_chunk);
  });
}

bool ContextAttention::leaves(int chunk) const {
  const auto& departures = exchange_->schedule().departures;
  return std::find(departures.begin(), departures.end(), chunk) != departures.end();
}

void ContextAttention::load_exact(const AttentionInputs& inputs, int64_t index, Stream& stream) {
  backend_.copy(chunk_rows(inputs.k, index), k_, stream);
  backend_.copy(chunk_rows(inputs.v, index), v_, stream);
  rope_keys(owned()[static_cast<size_t>(index)], RopeDirection::forward, k_, stream);
}

codec::BlockTensors ContextAttention::load_compressed(codec::BlockCodec& codec,
                                                      const SavedAttention& saved,
                                                      int chunk,
                                                      Stream& stream) {
  const auto tensors = codec::BlockTensors::carve(coordinates_, codec.layout());
  const View block = saved.blocks[static_cast<size_t>(chunk)];
  codec.unpack(block.rows(0, codec.layout().block_bytes()), tensors, Write::overwrite, stream);
  codec.decode(tensors, k_, v_, stream);
  rope_keys(chunk, RopeDirection::forward, k_, stream);
  return tensors;
}

void ContextAttention::compute_angles(codec::BlockCodec& codec,
                                      const AttentionInputs& inputs,
                                      SavedAttention& saved,
                                      Stream& stream) {
  const int64_t k = codec.layout().num_angles;
  if (k == 0) return;
  for (int64_t i = 0; i < shape_.num_owned_chunks; ++i) {
    backend_.column_mean(
        chunk_rows(inputs.x, i), saved.means.rows(i, 1).reshape({shape_.hidden_size}), stream);
  }
  angles_.forward(
      codec, saved.means, all_theta(codec, saved.theta), all_theta(codec, transit_), stream);
}

void ContextAttention::encode_owned(codec::BlockCodec& codec,
                                    const AttentionInputs& inputs,
                                    SavedAttention& saved,
                                    Stream& stream) {
  compute_angles(codec, inputs, saved, stream);
  const auto scratch = codec::BlockTensors::carve(coordinates_, codec.layout());
  for (int64_t i = 0; i < shape_.num_owned_chunks; ++i) {
    const int chunk = owned()[static_cast<size_t>(i)];
    if (!leaves(chunk) && !read_compressed_here(chunk)) continue;
    const View block = saved.blocks[static_cast<size_t>(chunk)];
    codec.encode(chunk_rows(inputs.k, i),
                 chunk_rows(inputs.v, i),
                 theta_of(codec, saved.theta, i),
                 scratch,
                 block.rows(0, codec.layout().block_bytes()),
                 stream);
  }
  stream.synchronize();
}

ring::BlockSlots ContextAttention::slots(const codec::BlockCodec& codec,
                                         const std::vector<View>& blocks) const {
  ring::BlockSlots result;
  for (const View& block : blocks) {
    result.push_back(block.rows(0, codec.layout().block_bytes()).bytes());
  }
  return result;
}

codec::BlockTensors ContextAttention::home(const codec::BlockCodec& codec, int64_t index) const {
  return codec::BlockTensors::carve(home_[static_cast<size_t>(index)], codec.layout());
}

void ContextAttention::start_forward(const LayerAttention& layer, Stream& stream) {
  encode_owned(layer.codec, layer.inputs, layer.saved, stream);
  exchange_->start_forward(slots(layer.codec, layer.saved.blocks));
}

void ContextAttention::finish_forward(const LayerAttention& layer, Stream& stream) {
  ForwardPass pass{*this, layer, stream};
  backend_.fill(layer.saved.out, 0, stream);
  backend_.fill(layer.saved.lse, -std::numeric_limits<float>::infinity(), stream);
  pass.attend_owned();
  exchange_->finish_forward([&](int chunk) { pass.attend_compressed(chunk); });
}

void ContextAttention::start_backward(const LayerAttention& layer,
                                      const AttentionGradients& gradients,
                                      uint64_t rounding_seed,
                                      Stream& stream) {
  BackwardPass pass{*this, layer, gradients, rounding_seed, stream};
  pass.prepare();
  exchange_->start_backward(
      slots(layer.codec, incoming_),
      slots(layer.codec, outgoing_),
      {.num_buffers = kNumShares,
       .compute = [&](int chunk, int buffer) { pass.share_of(chunk, pass.share(buffer)); },
       .contribute = [&](const ring::RingExchange::Contribution& step) { pass.contribute(step); },
       .local = [&] { pass.owned_gradients(); }});
}

void ContextAttention::finish_backward(const LayerAttention& layer,
                                       const AttentionGradients& gradients,
                                       Stream& stream) {
  const int64_t bytes = layer.codec.layout().block_bytes();
  exchange_->finish_backward([&](int chunk) {
    layer.codec.unpack(incoming_[static_cast<size_t>(chunk)].rows(0, bytes),
                       home(layer.codec, index_of(chunk)),
                       Write::accumulate,
                       stream);
  });
  encode_backward(layer, gradients, stream);
}

void ContextAttention::poll() {
  if (exchange_ != nullptr) exchange_->poll();
}

void ContextAttention::encode_backward(const LayerAttention& layer,
                                       const AttentionGradients& gradients,
                                       Stream& stream) {
  const int64_t k = layer.codec.layout().num_angles;
  for (int64_t i = 0; i < shape_.num_owned_chunks; ++i) {
    const codec::BlockTensors gradient = home(layer.codec, i);
    layer.codec.encode_backward(chunk_rows(layer.inputs.k, i),
                                chunk_rows(layer.inputs.v, i),
                                theta_of(layer.codec, layer.saved.theta, i),
                                gradient,
                                chunk_rows(gradients.d_k, i),
                                chunk_rows(gradients.d_v, i),
                                stream);
    if (k > 0) backend_.copy(gradient.theta, theta_of(layer.codec, d_theta_, i), stream);
  }
  if (k == 0) return;
  backend_.fill(d_means_, 0, stream);
  angles_.backward(layer.codec,
                   layer.saved.means,
                   all_theta(layer.codec, d_theta_),
                   d_means_,
                   all_theta(layer.codec, transit_),
                   stream);
  const float scale = 1.0F / static_cast<float>(shape_.chunk_tokens);
  for (int64_t i = 0; i < shape_.num_owned_chunks; ++i) {
    backend_.add_row(d_means_.rows(i, 1).reshape({shape_.hidden_size}),
                     scale,
                     chunk_rows(gradients.d_x, i),
                     stream);
  }
}

}  // namespace subring::attention
