#include "subring/codec/block_layout.hpp"

namespace subring::codec {

int64_t BlockLayout::block_bytes() const {
  int64_t bytes = angle_bytes();
  for (const int64_t width : widths) bytes += tensor_bytes(width);
  return bytes;
}

int64_t BlockLayout::num_elements() const {
  int64_t count = 2 * num_angles;
  for (const int64_t width : widths) count += num_tokens * width;
  return count;
}

BlockTensors BlockTensors::carve(View memory, const BlockLayout& layout) {
  const View flat = memory.reshape({memory.num_elements()});
  int64_t next = 2 * layout.num_angles;
  BlockTensors tensors{.theta = flat.rows(0, next).reshape({2, layout.num_angles}), .z = {}};
  for (const int64_t width : layout.widths) {
    const int64_t count = layout.num_tokens * width;
    tensors.z.push_back(flat.rows(next, count).reshape({layout.num_tokens, width}));
    next += count;
  }
  return tensors;
}

}  // namespace subring::codec
