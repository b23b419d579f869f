#include <cmath>

#include "subring/model/warm_start.hpp"

namespace subring::model {
namespace {

class LatentWarmStart final : public WarmStart {
 public:
  LatentWarmStart(Backend& backend, int64_t num_layers, int64_t kv_width);

  const Arena& arena() const override { return *arena_; }
  void accumulate(int64_t layer, ConstView k, ConstView v, Stream& stream) override;
  std::vector<BasisReport> finish(const wire::Group& group,
                                  ParameterSet& parameters,
                                  Stream& stream) override;

 private:
  /// Second moments of one layer.
  struct Moments {
    View keys;     // [e, e] K^T K
    View crossed;  // [e, e] K^T V
    View values;   // [e, e] V^T V
  };
  std::vector<float> host(ConstView view, Stream& stream) const;
  void join(const Moments& moments, Stream& stream);
  BasisReport set_latent(int64_t layer, const LayerParameters& parameters, Stream& stream);
  void set_down(const LayerParameters& parameters, Stream& stream);

  Backend& backend_;
  int64_t kv_width_;
  std::unique_ptr<Arena> arena_;
  std::vector<Moments> moments_;  // by layer
  std::vector<double> tokens_;    // by layer: summed into its moments
  View joint_;                    // [2e, 2e]
  View eigenvectors_;             // [2e, 2e]
  View eigenvalues_;              // [2e]
};

LatentWarmStart::LatentWarmStart(Backend& backend, int64_t num_layers, int64_t kv_width)
    : backend_(backend), kv_width_(kv_width), tokens_(static_cast<size_t>(num_layers)) {
  arena_ = make_arena("warm start", backend.memory(), [&](Arena& arena) {
    const auto square = [&](int64_t width) {
      return arena.allocate("second moments", DType::f32, {width, width});
    };
    moments_.clear();
    for (int64_t i = 0; i < num_layers; ++i) {
      moments_.push_back({square(kv_width), square(kv_width), square(kv_width)});
    }
    joint_ = square(2 * kv_width);
    eigenvectors_ = arena.allocate("eigenvectors", DType::f32, {2 * kv_width, 2 * kv_width});
    eigenvalues_ = arena.allocate("eigenvectors", DType::f32, {2 * kv_width});
  });
  const auto stream = backend.make_stream();
  backend.fill(arena_->contents(), 0, *stream);
  stream->synchronize();
}

void LatentWarmStart::accumulate(int64_t layer, ConstView k, ConstView v, Stream& stream) {
  const auto index = static_cast<size_t>(layer);
  const auto add = [&](ConstView a, ConstView b, View sum) {
    backend_.matmul(a, Transpose::yes, b, Transpose::no, sum, Write::accumulate, stream);
  };
  add(k, k, moments_[index].keys);
  add(k, v, moments_[index].crossed);
  add(v, v, moments_[index].values);
  tokens_[index] += static_cast<double>(k.shape[0]);
}

std::vector<float> LatentWarmStart::host(ConstView view, Stream& stream) const {
  std::vector<float> result(static_cast<size_t>(view.num_elements()));
  backend_.download(view, std::as_writable_bytes(std::span(result)), stream);
  return result;
}

/// joint_ = [K V]^T [K V].
void LatentWarmStart::join(const Moments& moments, Stream& stream) {
  const std::vector<float> keys = host(moments.keys, stream);
  const std::vector<float> crossed = host(moments.crossed, stream);
  const std::vector<float> values = host(moments.values, stream);
  const auto e = static_cast<size_t>(kv_width_);
  std::vector<float> joint(4 * e * e);
  for (size_t row = 0; row < e; ++row) {
    for (size_t column = 0; column < e; ++column) {
      joint[row * 2 * e + column] = keys[row * e + column];
      joint[row * 2 * e + e + column] = crossed[row * e + column];
      joint[(e + row) * 2 * e + column] = crossed[column * e + row];
      joint[(e + row) * 2 * e + e + column] = values[row * e + column];
    }
  }
  backend_.upload(std::as_bytes(std::span(joint)), joint_, stream);
}

BasisReport LatentWarmStart::set_latent(int64_t layer,
                                        const LayerParameters& parameters,
                                        Stream& stream) {
  join(moments_[static_cast<size_t>(layer)], stream);
  backend_.symmetric_eigen(joint_, eigenvalues_, eigenvectors_, stream);
  const std::vector<float> vectors = host(eigenvectors_, stream);
  const std::vector<float> energies = host(eigenvalues_, stream);
  const auto e = static_cast<size_t>(kv_width_);
  const auto rank = static_cast<size_t>(parameters.latent.norm.shape[0]);
  const auto upload_rows = [&](size_t first, View up) {
    std::vector<float> rows(e * rank);
    for (size_t row = 0; row < e; ++row) {
      for (size_t column = 0; column < rank; ++column) {
        rows[row * rank + column] = vectors[(first + row) * 2 * e + column];
      }
    }
    backend_.upload(std::as_bytes(std::span(rows)), up, stream);
  };
  upload_rows(0, parameters.latent.up_key);
  upload_rows(e, parameters.latent.up_value);
  set_down(parameters, stream);

  double trace = 0, captured = 0;
  for (size_t i = 0; i < 2 * e; ++i) {
    trace += energies[i];
    if (i < rank) captured += energies[i];
  }
  const double coordinates = tokens_[static_cast<size_t>(layer)] * static_cast<double>(rank);
  const double gain = captured > 0 && coordinates > 0 ? std::sqrt(captured / coordinates) : 1;
  backend_.fill(parameters.latent.norm, static_cast<float>(gain), stream);
  return {.name = {},
          .captured_energy = trace > 0 ? captured / trace : 1,
          .stable_rank = energies[0] > 0 ? trace / energies[0] : 0};
}

/// W_d = W_uk^T B_K^T + W_uv^T B_V^T.
void LatentWarmStart::set_down(const LayerParameters& parameters, Stream& stream) {
  const auto add = [&](ConstView up, const WeightPair& weight, Write write) {
    backend_.matmul(
        up, Transpose::yes, weight.value, Transpose::no, parameters.latent.down, write, stream);
  };
  add(parameters.latent.up_key, parameters.key, Write::overwrite);
  add(parameters.latent.up_value, parameters.value, Write::accumulate);
  stream.synchronize();
}

std::vector<BasisReport> LatentWarmStart::finish(const wire::Group& group,
                                                 ParameterSet& parameters,
                                                 Stream& stream) {
  constexpr auto kKind = wire::TrafficKind::other;
  for (const Moments& of_layer : moments_) {
    for (const View& sum : {of_layer.keys, of_layer.crossed, of_layer.values}) {
      wire::all_reduce_sum(group, {sum.f32(), static_cast<size_t>(sum.num_elements())}, kKind);
    }
  }
  // Exact as long as all ranks hold equally many tokens, which chunks of one size see to.
  for (double& count : tokens_) count *= group.size();
  const auto root_of = [&](size_t layer) { return static_cast<int>(layer) % group.size(); };
  std::vector<BasisReport> reports(moments_.size());
  for (size_t i = 0; i < reports.size(); ++i) {
    if (root_of(i) != group.index) continue;
    reports[i] = set_latent(static_cast<int64_t>(i), parameters.layers[i], stream);
  }
  stream.synchronize();
  for (size_t i = 0; i < reports.size(); ++i) {
    const codec::LatentParameters& latent = parameters.layers[i].latent;
    for (const View& value : {latent.down, latent.norm, latent.up_key, latent.up_value}) {
      wire::broadcast(group, root_of(i), value.bytes(), kKind);
    }
    reports[i].name = fmt::format("layer {} latent", i);
    share_report(group, root_of(i), reports[i]);
  }
  return reports;
}

}  // namespace

std::unique_ptr<WarmStart> make_latent_warm_start(Backend& backend,
                                                  int64_t num_layers,
                                                  int64_t kv_width) {
  return std::make_unique<LatentWarmStart>(backend, num_layers, kv_width);
}

}  // namespace subring::model
