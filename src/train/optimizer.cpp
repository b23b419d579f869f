#include "subring/train/optimizer.hpp"

#include <algorithm>

namespace subring::train {

using model::Parameter;
using model::ParameterRole;

Optimizer::Optimizer(Backend& backend,
                     const OptimizerOptions& options,
                     double basis_lr_factor,
                     const model::ParameterSet& parameters)
    : backend_(backend),
      options_(options),
      basis_lr_factor_(basis_lr_factor),
      parameters_(parameters) {
  const auto allocate = [&](std::vector<View>& views, const char* name) {
    return make_arena(name, backend.memory(), [&](Arena& arena) {
      views.clear();
      for (const Parameter& parameter : parameters.list()) {
        views.push_back(arena.allocate(name, DType::f32, parameter.value.shape));
      }
    });
  };
  first_ = allocate(first_moments_, "first moments");
  second_ = allocate(second_moments_, "second moments");
  int64_t largest_basis = 0, largest_gram = 0;
  for (const Parameter& parameter : parameters.list()) {
    if (parameter.role != ParameterRole::basis) continue;
    const int64_t rank = parameter.value.shape[1];
    largest_basis = std::max(largest_basis, parameter.value.num_elements());
    largest_gram = std::max(largest_gram, rank * rank);
  }
  scratch_ = make_arena("basis step", backend.memory(), [&](Arena& arena) {
    normal_ = arena.allocate("basis step", DType::f32, {largest_basis});
    gram_ = arena.allocate("basis step", DType::f32, {largest_gram});
  });
  const auto stream = backend.make_stream();
  for (const View& moment : moments()) backend.fill(moment, 0, *stream);
  stream->synchronize();
}

void Optimizer::project_gradients(Stream& stream) {
  for (const Parameter& basis : parameters_.list()) {
    if (basis.role != ParameterRole::basis) continue;
    const Shape shape = basis.value.shape;
    const View normal{normal_.data, DType::f32, shape};
    const View gram{gram_.data, DType::f32, {shape[1], shape[1]}};
    backend_.matmul(
        basis.value, Transpose::yes, basis.gradient, Transpose::no, gram, Write::overwrite, stream);
    backend_.matmul(
        basis.value, Transpose::no, gram, Transpose::no, normal, Write::overwrite, stream);
    backend_.matmul(
        basis.value, Transpose::no, gram, Transpose::yes, normal, Write::accumulate, stream);
    backend_.axpby(-0.5F, normal, 1, basis.gradient, stream);
  }
}

void Optimizer::step(double lr, double gradient_scale, OptimizerScope scope, Stream& stream) {
  ++num_steps_;
  if (scope == OptimizerScope::with_codec) ++num_codec_steps_;
  const auto& list = parameters_.list();
  for (size_t i = 0; i < list.size(); ++i) {
    const Parameter& parameter = list[i];
    const bool of_codec = model::is_codec_role(parameter.role);
    if (of_codec && scope == OptimizerScope::plain) continue;
    if (parameter.role == ParameterRole::frozen) continue;
    const bool decays =
        parameter.role == ParameterRole::matrix || parameter.role == ParameterRole::codec_matrix;
    AdamWStep step{.lr = static_cast<float>(lr),
                   .beta1 = static_cast<float>(options_.betas[0]),
                   .beta2 = static_cast<float>(options_.betas[1]),
                   .eps = static_cast<float>(options_.eps),
                   .weight_decay = decays ? static_cast<float>(options_.weight_decay) : 0,
                   .step = of_codec ? num_codec_steps_ : num_steps_,
                   .gradient_scale = static_cast<float>(gradient_scale)};
    if (parameter.role == ParameterRole::basis) {
      step.lr *= static_cast<float>(basis_lr_factor_);
    }
    backend_.adamw(
        step, parameter.value, parameter.gradient, first_moments_[i], second_moments_[i], stream);
    if (parameter.role == ParameterRole::basis) backend_.orthonormalize(parameter.value, stream);
  }
}

std::array<sync::MomentBuffer, 2> Optimizer::moment_buffers() const {
  const auto buffer = [](View view, double decay) -> sync::MomentBuffer {
    return {.values = {view.f32(), static_cast<size_t>(view.num_elements())}, .decay = decay};
  };
  return {buffer(first_->contents(), options_.betas[0]),
          buffer(second_->contents(), options_.betas[1])};
}

void Optimizer::retract_bases(Stream& stream) {
  for (const Parameter& parameter : parameters_.list()) {
    if (parameter.role == ParameterRole::basis) backend_.orthonormalize(parameter.value, stream);
  }
}

}  // namespace subring::train
