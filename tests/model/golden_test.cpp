// Whole models against tests/data/golden.json: losses and gradients of a second implementation that
// shares no code with this one (JAX, float64, one piece, automatic differentiation).

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "subring/codec/subspace.hpp"
#include "subring/core/enum_names.hpp"
#include "subring/core/random.hpp"
#include "subring/model/transformer.hpp"
#include "subring/wire/local.hpp"
#include "support/catch.hpp"

using namespace subring;

namespace {

using Json = nlohmann::json;

const Json& golden_cases() {
  static const Json cases = [] {
    std::ifstream file(SUBRING_SOURCE_DIR "/tests/data/golden.json");
    return Json::parse(file).at("cases");
  }();
  return cases;
}

template <NamedEnum Enum>
Enum enum_value(const Json& json) {
  return parse_enum<Enum>(json.get<std::string>()).value();
}

model::ModelOptions model_options(const Json& json) {
  model::ModelOptions options;
  options.hidden_size = json.at("hidden_size");
  options.num_hidden_layers = json.at("num_hidden_layers");
  options.num_attention_heads = json.at("num_attention_heads");
  options.num_key_value_heads = json.at("num_key_value_heads");
  options.intermediate_size = json.at("intermediate_size");
  options.vocab_size = json.at("vocab_size");
  options.rope_theta = json.at("rope_theta");
  options.rms_norm_eps = json.at("rms_norm_eps");
  options.tie_word_embeddings = json.at("tie_word_embeddings");
  return options;
}

codec::CompressionOptions compression_options(const Json& json) {
  codec::CompressionOptions options;
  options.codec = enum_value<codec::Codec>(json.at("codec"));
  options.key_rank = json.at("key_rank");
  options.value_rank = json.at("value_rank");
  options.exact_local = json.at("exact_local");
  options.learned_basis = json.at("learned_basis");
  options.rotation.kind = enum_value<codec::RotationKind>(json.at("rotation"));
  options.rotation.source = enum_value<codec::RotationSource>(json.at("source"));
  options.rotation.generators = json.at("generators");
  options.wire_dtype = FrameFormat::fp32;
  options.warmup_wire_dtype = FrameFormat::fp32;
  return options;
}

attention::ContextShape context_shape(const model::ModelOptions& model,
                                      const codec::CompressionOptions& compression,
                                      const ring::ChunkMap& map) {
  return {.hidden_size = model.hidden_size,
          .num_query_heads = model.num_attention_heads,
          .num_kv_heads = model.num_key_value_heads,
          .head_dim = model.head_dim(),
          .rope_theta = model.rope_theta,
          .chunk_tokens = map.chunk_tokens,
          .num_chunks = map.num_chunks(),
          .num_owned_chunks = map.num_chunks() / map.num_ranks,
          .local_form = compression.exact_local ? attention::LocalForm::exact
                                                : attention::LocalForm::compressed,
          .angle_source = compression.rotation.source == codec::RotationSource::chunk
                              ? attention::AngleSource::chunk
                              : attention::AngleSource::previous_chunk};
}

/// Ways to spread `num_chunks` chunks over ranks; each rank holds as many.
std::vector<ring::ChunkMap> chunk_maps(int num_chunks, int64_t chunk_tokens) {
  std::vector<int> one(static_cast<size_t>(num_chunks), 0);
  std::vector<int> each = one;
  std::iota(each.begin(), each.end(), 0);
  std::vector<int> reversed(each.rbegin(), each.rend());
  std::vector<ring::ChunkMap> maps{{1, one, chunk_tokens},
                                   {num_chunks, each, chunk_tokens},
                                   {num_chunks, reversed, chunk_tokens}};
  if (num_chunks == 4) {
    maps.push_back({2, {0, 0, 1, 1}, chunk_tokens});
    maps.push_back({2, {0, 1, 1, 0}, chunk_tokens});  // zigzag
    maps.push_back({2, {1, 0, 1, 0}, chunk_tokens});
  }
  return maps;
}

/// Numbers of the whole model, summed over the ranks or in the order of the sequence.
struct Outcome {
  double loss = 0;                  ///< mean over valid labels, nats
  std::vector<float> token_losses;  ///< [T]
  std::vector<float> gradients;     ///< of every parameter, in the order of golden.json
};

void upload_parameters(const Json& parameters,
                       const std::vector<model::Parameter>& list,
                       Backend& backend,
                       Stream& stream) {
  for (size_t i = 0; i < list.size(); ++i) {
    const Json& golden = parameters.at(i);
    const double grid = golden.at("grid");
    std::vector<float> values;
    for (const Json& integer : golden.at("values")) {
      values.push_back(static_cast<float>(integer.get<double>() / grid));  // exact
    }
    backend.upload(std::as_bytes(std::span(values)), list[i].value, stream);
  }
}

std::vector<float> download(ConstView view, Backend& backend, Stream& stream) {
  std::vector<float> values(static_cast<size_t>(view.num_elements()));
  backend.download(view, std::as_writable_bytes(std::span(values)), stream);
  return values;
}

/// The rows of this rank's chunks, ascending.
std::vector<int32_t> own_rows(const Json& sequence, const ring::ChunkMap& map, int rank) {
  std::vector<int32_t> rows;
  for (int chunk : map.chunks_of(rank)) {
    for (int64_t i = 0; i < map.chunk_tokens; ++i) {
      rows.push_back(sequence.at(static_cast<size_t>(map.first_position(chunk) + i)));
    }
  }
  return rows;
}

enum class Recompute { no, yes };

/// What the ranks of `map` compute together; each sees its own chunks only.
class GoldenRun {
 public:
  GoldenRun(const Json& golden, const ring::ChunkMap& map, Recompute recompute)
      : golden_(golden),
        map_(map),
        model_(model_options(golden.at("model"))),
        compression_(compression_options(golden.at("compression"))) {
    model_.activation_recomputation = recompute == Recompute::yes;
    for (const Json& label : golden.at("labels")) num_valid_ += label.get<int>() >= 0;
  }

  Outcome run() {
    wire::run_local_ranks(map_.num_ranks, [&](wire::Transport& transport) {
      const Outcome outcome = run_rank(transport);
      if (transport.rank() == 0) outcome_ = outcome;
    });
    return outcome_;
  }

 private:
  Outcome run_rank(wire::Transport& transport) const {
    wire::Group group{&transport, {}, transport.rank(), std::chrono::seconds(60)};
    group.ranks.resize(static_cast<size_t>(map_.num_ranks));
    std::iota(group.ranks.begin(), group.ranks.end(), 0);

    const auto backend = make_backend({.threads = 1}, map_.num_ranks);
    const auto stream = backend->make_stream();
    model::Transformer transformer(*backend,
                                   model_,
                                   compression_,
                                   context_shape(model_, compression_, map_),
                                   golden_.at("seed"));
    transformer.set_chunks(group, map_);
    if (golden_.at("form") == "subspace") transformer.set_kv_form(model::KvForm::subspace);
    const auto& list = transformer.parameters().list();
    backend->fill(transformer.parameters().flat_gradients(), 0, *stream);
    upload_parameters(golden_.at("parameters"), list, *backend, *stream);

    transformer.forward(own_rows(golden_.at("tokens"), map_, group.index), *stream);
    double loss = transformer.loss_and_gradient(own_rows(golden_.at("labels"), map_, group.index),
                                                1.0F / static_cast<float>(num_valid_),
                                                *stream);
    transformer.backward(1, *stream);

    Outcome outcome;
    for (const model::Parameter& parameter : list) {
      const auto gradient = download(parameter.gradient, *backend, *stream);
      outcome.gradients.insert(outcome.gradients.end(), gradient.begin(), gradient.end());
    }
    outcome.token_losses =
        spread_rows(download(transformer.token_losses(), *backend, *stream), group.index);
    wire::all_reduce_sum(group, std::span(&loss, 1), wire::TrafficKind::other);
    wire::all_reduce_sum(group, std::span(outcome.gradients), wire::TrafficKind::weights);
    wire::all_reduce_sum(group, std::span(outcome.token_losses), wire::TrafficKind::other);
    outcome.loss = loss / num_valid_;
    return outcome;
  }

  /// This rank's rows at their places in the sequence, 0 elsewhere.
  std::vector<float> spread_rows(const std::vector<float>& rows, int rank) const {
    std::vector<float> sequence(static_cast<size_t>(map_.num_chunks() * map_.chunk_tokens), 0.0F);
    size_t next = 0;
    for (int chunk : map_.chunks_of(rank)) {
      for (int64_t i = 0; i < map_.chunk_tokens; ++i) {
        sequence[static_cast<size_t>(map_.first_position(chunk) + i)] = rows.at(next++);
      }
    }
    return sequence;
  }

  const Json& golden_;
  ring::ChunkMap map_;
  model::ModelOptions model_;
  codec::CompressionOptions compression_;
  int num_valid_ = 0;
  Outcome outcome_;
};

double norm_of(const Json& numbers) {
  double sum = 0;
  for (const Json& number : numbers) sum += number.get<double>() * number.get<double>();
  return std::sqrt(sum);
}

/// ||found - expected|| / scale; infinite when that is no number, or where zeros are not met.
double relative_error(std::span<const float> found, const Json& expected, double scale) {
  double sum = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double difference = found[i] - expected.at(i).get<double>();
    sum += difference * difference;
  }
  if (sum == 0) return 0;
  const double error = std::sqrt(sum) / scale;
  return std::isfinite(error) ? error : std::numeric_limits<double>::infinity();
}

/// Norm that a gradient's error is measured by: its own; weight and bias of an angle head are one
/// affine map of [mean, 1], whose gradient d_theta [mean, 1]^T counts as one.
double gradient_scale(const Json& parameters, size_t index) {
  const std::string name = parameters.at(index).at("name");
  const double norm = norm_of(parameters.at(index).at("gradient"));
  const bool weight = name.find(".angle_weight") != std::string::npos;
  const bool bias = name.find(".angle_bias") != std::string::npos;
  if (!weight && !bias) return norm;
  return std::hypot(norm, norm_of(parameters.at(weight ? index + 1 : index - 1).at("gradient")));
}

struct WorstGradient {
  std::string name;
  double error = 0;
};

WorstGradient worst_gradient(const Json& parameters, std::span<const float> gradients) {
  WorstGradient worst;
  size_t first = 0;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Json& expected = parameters.at(i).at("gradient");
    const double error = relative_error(
        gradients.subspan(first, expected.size()), expected, gradient_scale(parameters, i));
    if (error > worst.error) worst = {parameters.at(i).at("name"), error};
    first += expected.size();
  }
  return worst;
}

/// Bound for `num_steps` steps that each end in a sum of up to `length` products in f32: roundings
/// (at most 2^-24 each) walk at random within a sum and add up from step to step.
double rounding_bound(int num_steps, int64_t length) {
  return num_steps * std::sqrt(static_cast<double>(length)) * std::ldexp(1.0, -24);
}

/// Steps on the longest way through a block: norm, projection, encode, decode, RoPE, scores,
/// softmax, sum of values, output, norm, gate times up, down; then final norm, head and loss.
int num_forward_steps(const Json& golden) {
  return 12 * golden.at("model").at("num_hidden_layers").get<int>() + 3;
}

/// Sums over the sequence, or over a basis (gradient of an angle); widths of the cases are smaller.
int64_t longest_sum(const Json& golden) {
  const auto num_tokens = static_cast<int64_t>(golden.at("tokens").size());
  const int64_t value_rank = golden.at("compression").at("value_rank");
  return std::max(num_tokens, model_options(golden.at("model")).kv_width() * value_rank);
}

std::string owners(const ring::ChunkMap& map) {
  std::string text;
  for (int owner : map.owner) text += std::to_string(owner);
  return text;
}

}  // namespace

TEST_CASE("golden: parameters have the names and shapes of the reference, in its order") {
  const auto backend = make_backend({.threads = 1}, 1);
  for (const Json& golden : golden_cases()) {
    CAPTURE(golden.at("name").get<std::string>());
    const model::ParameterSet parameters(
        *backend, model_options(golden.at("model")), compression_options(golden.at("compression")));
    const Json& expected = golden.at("parameters");
    REQUIRE(parameters.list().size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(parameters.list()[i].name == expected[i].at("name").get<std::string>());
      const Shape& shape = parameters.list()[i].value.shape;
      REQUIRE(static_cast<size_t>(shape.rank()) == expected[i].at("shape").size());
      for (int axis = 0; axis < shape.rank(); ++axis) {
        CHECK(shape[axis] == expected[i].at("shape").at(static_cast<size_t>(axis)));
      }
    }
  }
}

TEST_CASE("golden: planes of the rotation are those of the reference") {
  constexpr uint64_t kPlaneStream = 0x706c616e65;  // runs that go on depend on it
  for (const Json& golden : golden_cases()) {
    CAPTURE(golden.at("name").get<std::string>());
    const auto pairing = codec::make_plane_pairing(derive_seed(golden.at("seed"), kPlaneStream),
                                                   model_options(golden.at("model")).kv_width(),
                                                   golden.at("compression").at("generators"));
    const Json& planes = golden.at("planes");
    CHECK(pairing.partner == planes.at("partner").get<std::vector<int32_t>>());
    CHECK(pairing.sign == planes.at("sign").get<std::vector<float>>());
    CHECK(pairing.generator == planes.at("generator").get<std::vector<int32_t>>());
  }
}

TEST_CASE("golden: losses and gradients are those of the reference on every mesh") {
  const auto recompute = GENERATE(Recompute::no, Recompute::yes);
  for (const Json& golden : golden_cases()) {
    const std::string name = golden.at("name");
    const int num_chunks = golden.at("chunks");
    const auto num_tokens = static_cast<int64_t>(golden.at("tokens").size());
    for (const ring::ChunkMap& map : chunk_maps(num_chunks, num_tokens / num_chunks)) {
      CAPTURE(name, owners(map), recompute == Recompute::yes);
      const Outcome outcome = GoldenRun(golden, map, recompute).run();
      const int num_steps = num_forward_steps(golden);
      const double loss_bound = rounding_bound(num_steps, longest_sum(golden));

      const Json& losses = golden.at("token_losses");
      CHECK(relative_error(outcome.token_losses, losses, norm_of(losses)) < loss_bound);
      const double loss = golden.at("loss");
      CHECK(std::abs(outcome.loss - loss) < loss_bound * loss);

      const WorstGradient worst = worst_gradient(golden.at("parameters"), outcome.gradients);
      CAPTURE(worst.name);
      // The backward pass takes as many steps again.
      CHECK(worst.error < rounding_bound(2 * num_steps, longest_sum(golden)));
    }
  }
}
