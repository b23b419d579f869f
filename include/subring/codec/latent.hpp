#pragma once

#include <memory>

#include "subring/codec/block_projection.hpp"
#include "subring/core/arena.hpp"

namespace subring::codec {

/// Parameters of one layer's latent and their gradients. d model width, e = d_kv, r latent rank.
struct LatentParameters {
  View down;      ///< W_d [r, d]
  View d_down;    ///< [r, d]
  View norm;      ///< gain of the RMSNorm [r]
  View d_norm;    ///< [r]
  View up_key;    ///< W_uk [e, r]
  View d_up_key;  ///< [e, r]
  View up_value;  ///< W_uv [e, r]
  View d_up_value;
};

/// Memory that the latents of all layers share: each uses it only inside one call.
struct LatentScratch {
  View raw;    ///< [n, r] x W_d^T
  View c;      ///< [n, r]
  View d_raw;  ///< [n, r]
  View rstd;   ///< [n]

  static LatentScratch allocate(Arena& arena, int64_t chunk_tokens, int64_t rank);
};

/// Codec latent, the rival: one joint latent of K and V as in multi-head latent attention
/// (arXiv:2405.04434 section 2.1): c = RMSNorm(x W_d^T), K = c W_uk^T before RoPE, V = c W_uv^T.
/// c travels. Unlike a subspace it reads x, not plain K and V, and nothing ties what readers see to
/// them but training.
/// Cost a chunk: encode 2 n d r flops, decode 4 n e r; backward twice that, and the encode again.
std::unique_ptr<BlockProjection> make_latent_projection(Backend& backend,
                                                        const LatentParameters& parameters,
                                                        double rms_norm_eps,
                                                        const LatentScratch& scratch);

}  // namespace subring::codec
