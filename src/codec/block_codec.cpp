#include "subring/codec/block_codec.hpp"

namespace subring::codec {
BlockTensors BlockTensors::carve(View memory, const BlockLayout& layout) {
  const View flat = memory.reshape({memory.num_elements()});
  const int64_t num_theta = 2 * layout.num_angles;
  const int64_t num_key = layout.num_tokens * layout.key_coordinates;
  const int64_t num_value = layout.num_tokens * layout.value_coordinates;
  return {flat.rows(0, num_theta).reshape({2, layout.num_angles}),
          flat.rows(num_theta, num_key).reshape({layout.num_tokens, layout.key_coordinates}),
          flat.rows(num_theta + num_key, num_value)
              .reshape({layout.num_tokens, layout.value_coordinates})};
}

View BlockTensors::theta_row(int row) const { return theta.rows(row, 1); }

BlockCodec::BlockCodec(Backend& backend,
                       FrameFormat format,
                       int64_t chunk_tokens,
                       std::unique_ptr<Projection> key,
                       std::unique_ptr<Projection> value,
                       int64_t kept)
    : backend_(backend), key_(std::move(key)), value_(std::move(value)) {
  layout_.format = format;
  layout_.num_tokens = chunk_tokens;
  layout_.key_coordinates = key_->num_coordinates();
  layout_.value_coordinates = value_->num_coordinates();
  layout_.num_angles = key_->num_angles();
  layout_.kept = kept;
}

void BlockCodec::encode(ConstView k,
                        ConstView v,
                        ConstView theta,
                        const BlockTensors& scratch,
                        View block,
                        Stream& stream) {
  if (layout_.num_angles > 0) backend_.copy(theta, scratch.theta, stream);
  key_->encode_forward(k, scratch.theta_row(0), scratch.z_key, stream);
  value_->encode_forward(v, scratch.theta_row(1), scratch.z_value, stream);
  pack(scratch, {.mode = Rounding::nearest}, block, stream);
}

void BlockCodec::pack(const BlockTensors& tensors,
                      const FrameRounding& rounding,
                      View block,
                      Stream& stream) {
  const int64_t key_offset = layout_.angle_bytes();
  const int64_t value_offset = key_offset + layout_.key_bytes();
  if (layout_.num_angles > 0) {
    backend_.encode_frame(FrameFormat::fp32, {}, tensors.theta, block.rows(0, key_offset), stream);
  }
  const FrameRounding value_rounding{rounding.mode, ~rounding.seed};
  pack_tensor(tensors.z_key, rounding, block.rows(key_offset, layout_.key_bytes()), stream);
  pack_tensor(
      tensors.z_value, value_rounding, block.rows(value_offset, layout_.value_bytes()), stream);
}

void BlockCodec::pack_tensor(ConstView z,
                             const FrameRounding& rounding,
                             View bytes,
                             Stream& stream) {
  if (layout_.kept > 0) {
    backend_.encode_sparse_frame(layout_.format, layout_.kept, rounding, z, bytes, stream);
  } else {
    backend_.encode_frame(layout_.format, rounding, z, bytes, stream);
  }
}

void BlockCodec::unpack(ConstView block, const BlockTensors& tensors, Write write, Stream& stream) {
  const int64_t key_offset = layout_.angle_bytes();
  const int64_t value_offset = key_offset + layout_.key_bytes();
  if (layout_.num_angles > 0) {
    backend_.decode_frame(
        FrameFormat::fp32, block.rows(0, key_offset), tensors.theta, write, stream);
  }
  unpack_tensor(block.rows(key_offset, layout_.key_bytes()), tensors.z_key, write, stream);
  unpack_tensor(block.rows(value_offset, layout_.value_bytes()), tensors.z_value, write, stream);
}

void BlockCodec::unpack_tensor(ConstView bytes, View z, Write write, Stream& stream) {
  if (layout_.kept > 0) {
    backend_.decode_sparse_frame(layout_.format, layout_.kept, bytes, z, write, stream);
  } else {
    backend_.decode_frame(layout_.format, bytes, z, write, stream);
  }
}

void BlockCodec::decode(const BlockTensors& tensors, View k, View v, Stream& stream) {
  key_->decode_forward(tensors.z_key, tensors.theta_row(0), k, stream);
  value_->decode_forward(tensors.z_value, tensors.theta_row(1), v, stream);
}

void BlockCodec::decode_backward(const BlockTensors& tensors,
                                 ConstView d_k,
                                 ConstView d_v,
                                 const BlockTensors& d_tensors,
                                 Stream& stream) {
  if (layout_.num_angles > 0) backend_.fill(d_tensors.theta, 0, stream);
  key_->decode_backward(
      tensors.z_key, tensors.theta_row(0), d_k, d_tensors.z_key, d_tensors.theta_row(0), stream);
  value_->decode_backward(tensors.z_value,
                          tensors.theta_row(1),
                          d_v,
                          d_tensors.z_value,
                          d_tensors.theta_row(1),
                          stream);
}

void BlockCodec::encode_backward(ConstView k,
                                 ConstView v,
                                 ConstView theta,
                                 const BlockTensors& d_tensors,
                                 View d_k,
                                 View d_v,
                                 Stream& stream) {
  key_->encode_backward(k, theta.rows(0, 1), d_tensors.z_key, d_k, d_tensors.theta_row(0), stream);
  value_->encode_backward(
      v, theta.rows(1, 1), d_tensors.z_value, d_v, d_tensors.theta_row(1), stream);
}

}  // namespace subring::codec
