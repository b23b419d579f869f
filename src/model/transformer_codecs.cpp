// What the layers' blocks of K and V look like on the wire, by `compression.codec`.

#include <algorithm>
#include <utility>

#include "subring/core/random.hpp"
#include "subring/model/transformer.hpp"

namespace subring::model {
namespace {

constexpr uint64_t kPlaneSeed = 0x706c616e65;  // "plane": apart from the streams of the weights

RotationFunction function_of(codec::RotationKind kind) {
  switch (kind) {
    case codec::RotationKind::taylor2: return RotationFunction::taylor2;
    case codec::RotationKind::expm: return RotationFunction::expm;
    default: return RotationFunction::exact;
  }
}

/// The generators' planes in backend memory; the same for K and V of all layers.
RotationPlanes upload_planes(Backend& backend,
                             const codec::PlanePairing& pairing,
                             codec::RotationKind kind,
                             Arena& arena,
                             Stream& stream) {
  const auto size = static_cast<int64_t>(pairing.partner.size());
  const View partner = arena.allocate("rotation planes", DType::i32, {size});
  const View sign = arena.allocate("rotation planes", DType::f32, {size});
  const View generator = arena.allocate("rotation planes", DType::i32, {size});
  if (!arena.measuring()) {
    backend.upload(std::as_bytes(std::span(pairing.partner)), partner, stream);
    backend.upload(std::as_bytes(std::span(pairing.sign)), sign, stream);
    backend.upload(std::as_bytes(std::span(pairing.generator)), generator, stream);
  }
  return {.function = function_of(kind), .partner = partner, .sign = sign, .generator = generator};
}

}  // namespace

void Transformer::make_codecs(const codec::CompressionOptions& compression, uint64_t seed) {
  using codec::Codec;
  const bool never_compressed = compression.codec == Codec::none;
  const FrameFormat plain_format =
      never_compressed ? compression.wire_dtype : compression.warmup_wire_dtype;
  add_plain_codecs(plain_codecs_, plain_format, 0);
  switch (compression.codec) {
    case Codec::none: break;
    case Codec::subspace: add_subspace_codecs(compression, seed); break;
    case Codec::latent: add_latent_codecs(compression); break;
    case Codec::topk:
      add_plain_codecs(
          compressed_codecs_, compression.wire_dtype, compression.kept_of(context_.kv_width()));
      break;
    case Codec::quantize: add_plain_codecs(compressed_codecs_, compression.wire_dtype, 0); break;
  }
}

std::unique_ptr<codec::BlockCodec> Transformer::make_codec(
    FrameFormat format, std::unique_ptr<codec::BlockProjection> projection, int64_t kept) {
  return std::make_unique<codec::BlockCodec>(
      backend_, format, context_.chunk_tokens, std::move(projection), kept);
}

void Transformer::add_plain_codecs(std::vector<std::unique_ptr<codec::BlockCodec>>& codecs,
                                   FrameFormat format,
                                   int64_t kept) {
  const auto plain = [&] { return codec::make_plain_projection(backend_, context_.kv_width()); };
  for (int64_t i = 0; i < model_.num_hidden_layers; ++i) {
    codecs.push_back(make_codec(format, codec::make_pair_projection(plain(), plain()), kept));
  }
}

void Transformer::add_subspace_codecs(const codec::CompressionOptions& compression, uint64_t seed) {
  const auto stream = backend_.make_stream();
  const codec::RotationOptions& rotation = compression.rotation;
  const auto pairing = codec::make_plane_pairing(
      derive_seed(seed, kPlaneSeed), context_.kv_width(), rotation.generators);
  RotationPlanes planes;
  codec::SubspaceScratch scratch;
  codec_arena_ = make_arena("codec", backend_.memory(), [&](Arena& arena) {
    planes = upload_planes(backend_, pairing, rotation.kind, arena, *stream);
    scratch = codec::SubspaceScratch::allocate(
        arena, context_.kv_width(), std::max(compression.key_rank, compression.value_rank));
  });
  const auto subspace = [&](const codec::SubspaceParameters& parameters) {
    return codec::make_subspace_projection(backend_, rotation.kind, planes, parameters, scratch);
  };
  for (const LayerParameters& layer : parameters_.layers) {
    compressed_codecs_.push_back(make_codec(
        compression.wire_dtype,
        codec::make_pair_projection(subspace(layer.key_subspace), subspace(layer.value_subspace))));
  }
}

void Transformer::add_latent_codecs(const codec::CompressionOptions& compression) {
  codec::LatentScratch scratch;
  codec_arena_ = make_arena("codec", backend_.memory(), [&](Arena& arena) {
    scratch = codec::LatentScratch::allocate(arena, context_.chunk_tokens, compression.latent_rank);
  });
  for (const LayerParameters& layer : parameters_.layers) {
    compressed_codecs_.push_back(make_codec(
        compression.wire_dtype,
        codec::make_latent_projection(backend_, layer.latent, model_.rms_norm_eps, scratch)));
  }
}

}  // namespace subring::model
