#include "subring/model/spectra.hpp"

#include <algorithm>
#include <cmath>

namespace subring::model {
namespace {

constexpr size_t kNumTensors = 3;
constexpr std::string_view kTensorNames[kNumTensors] = {"q", "k", "v"};

const WeightPair& projection(const ParameterSet& parameters, size_t index) {
  const LayerParameters& layer = parameters.layers[index / kNumTensors];
  switch (index % kNumTensors) {
    case 0: return layer.query;
    case 1: return layer.key;
    default: return layer.value;
  }
}

/// The first extents.num_elements() numbers of scratch.
View part(View scratch, Shape extents) { return {scratch.data, DType::f32, extents}; }

/// 1 to `width` in at most 64 steps of about equal ratio.
std::vector<int64_t> curve_points(int64_t width) {
  constexpr int kNumPoints = 64;
  std::vector<int64_t> points;
  for (int i = 0; i < kNumPoints; ++i) {
    const double exponent = static_cast<double>(i) / (kNumPoints - 1);
    const auto point =
        static_cast<int64_t>(std::llround(std::pow(static_cast<double>(width), exponent)));
    if (points.empty() || point > points.back()) points.push_back(point);
  }
  return points;
}

}  // namespace

Spectrum make_spectrum(int64_t layer, std::string_view tensor, std::span<const float> eigenvalues) {
  Spectrum spectrum{
      .layer = layer, .tensor = tensor, .width = static_cast<int64_t>(eigenvalues.size())};
  std::vector<double> cumulative;
  double sum = 0;
  for (float value : eigenvalues) cumulative.push_back(sum += std::max(value, 0.0F));
  if (sum > 0) {
    spectrum.stable_rank = sum / eigenvalues.front();
    for (double& value : cumulative) value /= sum;
  }
  const auto components = [&](double share) -> int64_t {
    if (sum == 0) return 0;
    return std::ranges::lower_bound(cumulative, share) - cumulative.begin() + 1;
  };
  spectrum.components_90 = components(0.90);
  spectrum.components_95 = components(0.95);
  spectrum.components_99 = components(0.99);
  spectrum.components = curve_points(spectrum.width);
  for (int64_t count : spectrum.components) {
    spectrum.energy.push_back(cumulative[static_cast<size_t>(count) - 1]);
  }
  return spectrum;
}

SpectraStudy::SpectraStudy(Backend& backend, const ParameterSet& parameters)
    : backend_(backend), parameters_(parameters) {
  const int64_t d = parameters.layers.front().query.value.shape[1];
  arena_ = make_arena("rank study", backend.memory(), [&](Arena& arena) {
    inputs_.clear();
    for (size_t i = 0; i < parameters.layers.size(); ++i) {
      inputs_.push_back(arena.allocate("rank study", DType::f32, {d, d}));
    }
    for (View* scratch : {&product_, &moments_, &own_, &eigenvectors_}) {
      *scratch = arena.allocate("rank study", DType::f32, {d * d});
    }
    eigenvalues_ = arena.allocate("rank study", DType::f32, {d});
  });
}

void SpectraStudy::begin(Stream& stream) {
  for (const View& inputs : inputs_) backend_.fill(inputs, 0, stream);
}

void SpectraStudy::accumulate(int64_t layer, ConstView x, Stream& stream) {
  backend_.matmul(x,
                  Transpose::yes,
                  x,
                  Transpose::no,
                  inputs_[static_cast<size_t>(layer)],
                  Write::accumulate,
                  stream);
}

View SpectraStudy::second_moments(size_t index, Stream& stream) {
  const ConstView weight = projection(parameters_, index).value;  // [w, d]
  const int64_t width = weight.shape[0];
  const View product = part(product_, weight.shape);
  const View moments = part(moments_, {width, width});
  backend_.matmul(weight,
                  Transpose::no,
                  inputs_[index / kNumTensors],
                  Transpose::no,
                  product,
                  Write::overwrite,
                  stream);
  backend_.matmul(
      product, Transpose::no, weight, Transpose::yes, moments, Write::overwrite, stream);
  return moments;
}

std::vector<Spectrum> SpectraStudy::finish(const wire::Group& group, Stream& stream) {
  const size_t count = kNumTensors * inputs_.size();
  const auto num_members = static_cast<size_t>(group.size());
  const auto member = static_cast<size_t>(group.index);
  std::vector<std::vector<float>> eigenvalues(count);
  for (size_t first = 0; first < count; first += num_members) {
    const size_t end = std::min(count, first + num_members);
    for (size_t i = first; i < end; ++i) {
      const View moments = second_moments(i, stream);
      stream.synchronize();
      wire::all_reduce_sum(group,
                           {moments.f32(), static_cast<size_t>(moments.num_elements())},
                           wire::TrafficKind::other);
      if (i == first + member) backend_.copy(moments, part(own_, moments.shape), stream);
      eigenvalues[i].resize(static_cast<size_t>(moments.shape[0]));
    }
    // One for each member, all at once.
    const size_t own = first + member;
    if (own >= end) continue;
    const auto width = static_cast<int64_t>(eigenvalues[own].size());
    const View values = part(eigenvalues_, {width});
    backend_.symmetric_eigen(
        part(own_, {width, width}), values, part(eigenvectors_, {width, width}), stream);
    backend_.download(values, std::as_writable_bytes(std::span(eigenvalues[own])), stream);
  }
  std::vector<Spectrum> spectra;
  for (size_t i = 0; i < count; ++i) {
    wire::broadcast(group,
                    static_cast<int>(i % num_members),
                    std::as_writable_bytes(std::span(eigenvalues[i])),
                    wire::TrafficKind::other);
    spectra.push_back(make_spectrum(
        static_cast<int64_t>(i / kNumTensors), kTensorNames[i % kNumTensors], eigenvalues[i]));
  }
  return spectra;
}

}  // namespace subring::model
