#include "subring/attention/context_attention.hpp"

#include <algorithm>

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

ContextAttention::ContextAttention(Backend& backend,
                                   const ContextShape& shape,
                                   const CodecLimits& limits,
                                   Arena& arena)
    : backend_(backend), shape_(shape), angles_(shape.angle_source, [this] { poll(); }) {
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
  for (Flight& flight : flights_) {
    flight.angles.memory = arena.allocate("angle scratch", DType::f32, angles);
  }
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
  for (size_t lane = 0; lane < flights_.size(); ++lane) {
    flights_[lane].exchange = std::make_unique<ring::RingExchange>(
        group, ring::make_schedule(map, group.index), static_cast<int>(lane));
  }
  SUBRING_CHECK(static_cast<int>(owned().size()) == shape_.num_owned_chunks,
                ErrorKind::shape,
                "{} owned chunks where {} are laid out",
                owned().size(),
                shape_.num_owned_chunks);
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

ring::BlockSlots ContextAttention::slots(const codec::BlockCodec& codec,
                                         const std::vector<View>& blocks) const {
  ring::BlockSlots result;
  for (const View& block : blocks) {
    result.push_back(block.rows(0, codec.layout().block_bytes()).bytes());
  }
  return result;
}

void ContextAttention::poll() {
  for (Flight& flight : flights_) {
    if (flight.exchange != nullptr) flight.exchange->poll();
  }
}

}  // namespace subring::attention
