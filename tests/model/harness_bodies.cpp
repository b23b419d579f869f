#include <algorithm>
#include <mutex>

#include "model/harness.hpp"
#include "subring/core/random.hpp"
#include "subring/wire/local.hpp"

namespace subring::test {
namespace {

std::vector<int32_t> random_tokens(uint64_t seed, int64_t count, int64_t bound) {
  Random random(seed);
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  for (int32_t& token : tokens) {
    token = static_cast<int32_t>(random.below(static_cast<uint64_t>(bound)));
  }
  return tokens;
}

/// Contiguous and zigzag assignment, written apart from the mesh layer's.
ring::ChunkMap chunk_map(const ModelCase& test, int num_ranks) {
  ring::ChunkMap map;
  map.num_ranks = num_ranks;
  map.chunk_tokens = test.seq_len / test.chunks;
  const int chunks = static_cast<int>(test.chunks);
  for (int chunk = 0; chunk < chunks; ++chunk) {
    if (test.assignment == Assignment::contiguous) {
      map.owner.push_back(chunk * num_ranks / chunks);
    } else {
      const int run = chunk * 2 * num_ranks / chunks;
      map.owner.push_back(std::min(run, 2 * num_ranks - 1 - run));
    }
  }
  return map;
}

attention::ContextShape context_shape(const ModelCase& test, int num_ranks) {
  return {.hidden_size = test.model.hidden_size,
          .num_query_heads = test.model.num_attention_heads,
          .num_kv_heads = test.model.num_key_value_heads,
          .head_dim = test.model.head_dim(),
          .rope_theta = 10000.0,
          .chunk_tokens = test.seq_len / test.chunks,
          .num_chunks = static_cast<int>(test.chunks),
          .num_owned_chunks = static_cast<int>(test.chunks) / num_ranks,
          .local_form = test.compression.exact_local ? attention::LocalForm::exact
                                                     : attention::LocalForm::compressed,
          .angle_source = test.compression.rotation.source == codec::RotationSource::previous_chunk
                              ? attention::AngleSource::previous_chunk
                              : attention::AngleSource::chunk};
}

void turn_subspaces(const ModelCase& test, model::Transformer& transformer) {
  for (const model::Parameter& parameter : transformer.parameters().list()) {
    if (parameter.role != model::ParameterRole::codec_vector) continue;
    if (parameter.name.find(".angle_") == std::string::npos) continue;
    Random random(derive_seed(test.seed, parameter.name.size()));
    for (int64_t i = 0; i < parameter.value.num_elements(); ++i) {
      parameter.value.f32()[i] = static_cast<float>(test.angle_scale * random.normal());
    }
  }
}

}  // namespace

std::vector<int32_t> ModelCase::tokens() const {
  return random_tokens(derive_seed(seed, 1), seq_len, model.vocab_size);
}

std::vector<int32_t> ModelCase::labels() const {
  return random_tokens(derive_seed(seed, 2), seq_len, model.vocab_size);
}

ModelResult run_model(const ModelCase& test,
                      const std::vector<int32_t>& tokens,
                      const std::vector<int32_t>& labels,
                      int num_ranks,
                      const ModelEdit& edit) {
  const auto width = static_cast<size_t>(test.model.hidden_size);
  ModelResult result;
  result.hidden.resize(static_cast<size_t>(test.seq_len) * width);
  std::mutex mutex;
  wire::run_local_ranks(num_ranks, [&](wire::Transport& transport) {
    const auto backend = make_backend({BackendKind::cpu, 1}, 1);
    const auto stream = backend->make_stream();
    model::Transformer transformer(
        *backend, test.model, test.compression, context_shape(test, num_ranks), test.seed);
    transformer.parameters().initialize(*backend, test.seed, *stream);
    turn_subspaces(test, transformer);
    if (test.compression.codec != codec::Codec::none) {
      transformer.set_kv_form(model::KvForm::subspace);
    }
    if (edit) edit(transformer, *backend, *stream);

    wire::Group group{&transport, {}, transport.rank(), std::chrono::seconds(30)};
    for (int rank = 0; rank < num_ranks; ++rank) group.ranks.push_back(rank);
    const ring::ChunkMap map = chunk_map(test, num_ranks);
    transformer.set_chunks(group, map);

    const auto chunk_tokens = static_cast<size_t>(map.chunk_tokens);
    const std::vector<int> owned = map.chunks_of(transport.rank());
    std::vector<int32_t> own_tokens, own_labels;
    for (int chunk : owned) {
      const auto first = static_cast<int64_t>(map.first_position(chunk));
      own_tokens.insert(
          own_tokens.end(), tokens.begin() + first, tokens.begin() + first + map.chunk_tokens);
      own_labels.insert(
          own_labels.end(), labels.begin() + first, labels.begin() + first + map.chunk_tokens);
    }
    transformer.forward(own_tokens, *stream);
    const double loss =
        transformer.loss_and_gradient(own_labels, 1.0F / static_cast<float>(test.seq_len), *stream);
    transformer.backward(test.rounding_seed, *stream);
    const View gradients = transformer.parameters().flat_gradients();
    const std::span<float> sum(gradients.f32(), static_cast<size_t>(gradients.num_elements()));
    wire::all_reduce_sum(group, sum, wire::TrafficKind::other);

    std::lock_guard lock(mutex);
    result.loss += loss;
    result.gradients.assign(sum.begin(), sum.end());
    for (size_t i = 0; i < owned.size(); ++i) {
      const float* rows = transformer.final_hidden().f32() + i * chunk_tokens * width;
      std::copy_n(rows,
                  chunk_tokens * width,
                  result.hidden.begin() + map.first_position(owned[i]) * test.model.hidden_size);
    }
  });
  return result;
}

}  // namespace subring::test
