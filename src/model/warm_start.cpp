#include "subring/model/warm_start.hpp"

namespace subring::model {

namespace {

class SubspaceWarmStart final : public WarmStart {
 public:
  SubspaceWarmStart(Backend& backend, int64_t num_layers, int64_t kv_width);

  const Arena& arena() const override { return *arena_; }
  void accumulate(int64_t layer, ConstView k, ConstView v, Stream& stream) override;
  std::vector<BasisReport> finish(const wire::Group& group,
                                  ParameterSet& parameters,
                                  Stream& stream) override;

 private:
  BasisReport set_basis(size_t index, View basis, Stream& stream);

  Backend& backend_;
  int64_t kv_width_;
  std::unique_ptr<Arena> arena_;
  std::vector<View> moments_;  // [e, e]: key and value of layer 0, of layer 1, ...
  View eigenvectors_;          // [e, e]
  View eigenvalues_;           // [e]
};

SubspaceWarmStart::SubspaceWarmStart(Backend& backend, int64_t num_layers, int64_t kv_width)
    : backend_(backend), kv_width_(kv_width) {
  arena_ = make_arena("warm start", backend.memory(), [&](Arena& arena) {
    moments_.clear();
    for (int64_t i = 0; i < 2 * num_layers; ++i) {
      moments_.push_back(arena.allocate("second moments", DType::f32, {kv_width, kv_width}));
    }
    eigenvectors_ = arena.allocate("eigenvectors", DType::f32, {kv_width, kv_width});
    eigenvalues_ = arena.allocate("eigenvectors", DType::f32, {kv_width});
  });
  const auto stream = backend.make_stream();
  backend.fill(arena_->contents(), 0, *stream);
  stream->synchronize();
}

void SubspaceWarmStart::accumulate(int64_t layer, ConstView k, ConstView v, Stream& stream) {
  const auto index = static_cast<size_t>(2 * layer);
  backend_.matmul(k, Transpose::yes, k, Transpose::no, moments_[index], Write::accumulate, stream);
  backend_.matmul(
      v, Transpose::yes, v, Transpose::no, moments_[index + 1], Write::accumulate, stream);
}

BasisReport SubspaceWarmStart::set_basis(size_t index, View basis, Stream& stream) {
  backend_.symmetric_eigen(moments_[index], eigenvalues_, eigenvectors_, stream);
  const auto width = static_cast<size_t>(kv_width_);
  const auto rank = static_cast<size_t>(basis.shape[1]);
  std::vector<float> vectors(width * width), values(width), leading(width * rank);
  backend_.download(eigenvectors_, std::as_writable_bytes(std::span(vectors)), stream);
  backend_.download(eigenvalues_, std::as_writable_bytes(std::span(values)), stream);
  for (size_t row = 0; row < width; ++row) {
    for (size_t column = 0; column < rank; ++column) {
      leading[row * rank + column] = vectors[row * width + column];
    }
  }
  backend_.upload(std::as_bytes(std::span(leading)), basis, stream);

  double trace = 0, captured = 0;
  for (size_t i = 0; i < width; ++i) {
    trace += values[i];
    if (i < rank) captured += values[i];
  }
  return {.name = {},
          .captured_energy = trace > 0 ? captured / trace : 1,
          .stable_rank = values[0] > 0 ? trace / values[0] : 0};
}

std::vector<BasisReport> SubspaceWarmStart::finish(const wire::Group& group,
                                                   ParameterSet& parameters,
                                                   Stream& stream) {
  for (const View& moments : moments_) {
    wire::all_reduce_sum(group,
                         {moments.f32(), static_cast<size_t>(moments.num_elements())},
                         wire::TrafficKind::other);
  }
  std::vector<BasisReport> reports(moments_.size());
  const auto basis_of = [&](size_t index) {
    const LayerParameters& layer = parameters.layers[index / 2];
    return index % 2 == 0 ? layer.key_subspace.basis : layer.value_subspace.basis;
  };
  for (size_t i = 0; i < moments_.size(); ++i) {
    if (static_cast<int>(i % static_cast<size_t>(group.size())) != group.index) continue;
    reports[i] = set_basis(i, basis_of(i), stream);
  }
  for (size_t i = 0; i < moments_.size(); ++i) {
    const int root = static_cast<int>(i % static_cast<size_t>(group.size()));
    wire::broadcast(group, root, basis_of(i).bytes(), wire::TrafficKind::other);
    reports[i].name = fmt::format("layer {} {}", i / 2, i % 2 == 0 ? "key" : "value");
    share_report(group, root, reports[i]);
  }
  return reports;
}

}  // namespace

std::unique_ptr<WarmStart> make_subspace_warm_start(Backend& backend,
                                                    int64_t num_layers,
                                                    int64_t kv_width) {
  return std::make_unique<SubspaceWarmStart>(backend, num_layers, kv_width);
}

void share_report(const wire::Group& group, int root, BasisReport& report) {
  double figures[2] = {report.captured_energy, report.stable_rank};
  wire::broadcast(
      group, root, std::as_writable_bytes(std::span(figures)), wire::TrafficKind::other);
  report.captured_energy = figures[0];
  report.stable_rank = figures[1];
}

void fold_subspaces(Backend& backend, ParameterSet& parameters, Stream& stream) {
  const auto fold = [&](const WeightPair& weight, View basis) {
    View inside, folded;
    const auto arena = make_arena("fold", backend.memory(), [&](Arena& scratch) {
      inside = scratch.allocate("inside", DType::f32, {basis.shape[1], weight.value.shape[1]});
      folded = scratch.allocate("folded", DType::f32, weight.value.shape);
    });
    backend.matmul(
        basis, Transpose::yes, weight.value, Transpose::no, inside, Write::overwrite, stream);
    backend.matmul(basis, Transpose::no, inside, Transpose::no, folded, Write::overwrite, stream);
    backend.copy(folded, weight.value, stream);
    stream.synchronize();
  };
  for (const LayerParameters& layer : parameters.layers) {
    fold(layer.key, layer.key_subspace.basis);
    fold(layer.value, layer.value_subspace.basis);
  }
}

}  // namespace subring::model
