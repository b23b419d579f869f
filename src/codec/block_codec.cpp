#include "subring/codec/block_codec.hpp"

namespace subring::codec {

BlockCodec::BlockCodec(Backend& backend,
                       FrameFormat format,
                       int64_t chunk_tokens,
                       std::unique_ptr<BlockProjection> projection,
                       int64_t kept)
    : backend_(backend), projection_(std::move(projection)) {
  layout_.format = format;
  layout_.num_tokens = chunk_tokens;
  layout_.widths = projection_->widths();
  layout_.num_angles = projection_->num_angles();
  layout_.kept = kept;
}

void BlockCodec::encode(const BlockSource& source,
                        ConstView theta,
                        const BlockTensors& scratch,
                        View block,
                        Stream& stream) {
  if (layout_.num_angles > 0) backend_.copy(theta, scratch.theta, stream);
  projection_->encode_forward(source, scratch, stream);
  pack(scratch, {.mode = Rounding::nearest}, block, stream);
}

void BlockCodec::pack(const BlockTensors& tensors,
                      const FrameRounding& rounding,
                      View block,
                      Stream& stream) {
  int64_t offset = layout_.angle_bytes();
  if (offset > 0) {
    backend_.encode_frame(FrameFormat::fp32, {}, tensors.theta, block.rows(0, offset), stream);
  }
  FrameRounding of_tensor = rounding;
  for (const View& z : tensors.z) {
    const int64_t bytes = layout_.tensor_bytes(z.shape[1]);
    pack_tensor(z, of_tensor, block.rows(offset, bytes), stream);
    offset += bytes;
    of_tensor.seed = ~of_tensor.seed;  // two tensors at most
  }
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
  int64_t offset = layout_.angle_bytes();
  if (offset > 0) {
    backend_.decode_frame(FrameFormat::fp32, block.rows(0, offset), tensors.theta, write, stream);
  }
  for (const View& z : tensors.z) {
    const int64_t bytes = layout_.tensor_bytes(z.shape[1]);
    unpack_tensor(block.rows(offset, bytes), z, write, stream);
    offset += bytes;
  }
}

void BlockCodec::unpack_tensor(ConstView bytes, View z, Write write, Stream& stream) {
  if (layout_.kept > 0) {
    backend_.decode_sparse_frame(layout_.format, layout_.kept, bytes, z, write, stream);
  } else {
    backend_.decode_frame(layout_.format, bytes, z, write, stream);
  }
}

void BlockCodec::decode_backward(const BlockTensors& tensors,
                                 ConstView d_k,
                                 ConstView d_v,
                                 const BlockTensors& d_tensors,
                                 Stream& stream) {
  if (layout_.num_angles > 0) backend_.fill(d_tensors.theta, 0, stream);
  projection_->decode_backward(tensors, d_k, d_v, d_tensors, stream);
}

}  // namespace subring::codec
