#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "subring/backend/backend.hpp"
#include "subring/core/random.hpp"
#include "support/catch.hpp"

/// What tests of several layers share: host tensors, random content, comparison with a tolerance
/// that is derived, and attention in plain double loops.
namespace subring::reference {

using Vector = std::vector<double>;

/// A host tensor with its own memory.
struct Tensor {
  std::vector<float> values;
  Shape shape;

  Tensor() = default;
  explicit Tensor(Shape extents, float value = 0)
      : values(static_cast<size_t>(extents.num_elements()), value), shape(extents) {}
  operator View() { return {values.data(), DType::f32, shape}; }
  operator ConstView() const { return {values.data(), DType::f32, shape}; }
  float& operator[](int64_t i) { return values[static_cast<size_t>(i)]; }
  float operator[](int64_t i) const { return values[static_cast<size_t>(i)]; }
  int64_t size() const { return shape.num_elements(); }
  Vector wide() const { return {values.begin(), values.end()}; }
};

struct Integers {
  std::vector<int32_t> values;

  operator ConstView() const {
    return {values.data(), DType::i32, {static_cast<int64_t>(values.size())}};
  }
};

/// Normal values times `scale`.
inline Tensor random_tensor(Shape shape, uint64_t seed, double scale = 1) {
  Tensor x(shape);
  Random random(mix_bits(seed));
  for (float& value : x.values) value = static_cast<float>(scale * random.normal());
  return x;
}

inline std::unique_ptr<Backend> cpu_backend(int64_t threads = 1) {
  return make_backend({BackendKind::cpu, threads}, 1);
}

/// Half a unit in the last place of 1.0F: the relative error of one rounding.
constexpr double kRounding = 0x1p-24;

/// Bound of a float sum of `terms` products in any order, relative to the sum of magnitudes
/// (Higham, Accuracy and Stability, section 3.1): (terms + 1) roundings.
inline double sum_tolerance(int64_t terms) { return static_cast<double>(terms + 1) * kRounding; }

/// Every |got - want| <= tolerance * scale, where scale bounds the magnitudes that were summed.
inline void require_close(const Tensor& got, const Vector& want, double tolerance, double scale) {
  REQUIRE(got.values.size() == want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::abs(double{got.values[i]} - want[i]) <= tolerance * scale) continue;
    INFO("element " << i << " of " << want.size() << ": got " << got.values[i] << ", want "
                    << want[i] << ", allowed " << tolerance * scale);
    FAIL();
  }
}

inline double largest(const Vector& x) {
  double result = 0;
  for (const double value : x) result = std::max(result, std::abs(value));
  return result;
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.values.size() == b.values.size() &&
         (a.values.empty() ||
          std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0);
}

/// Attention over all keys at once, and its gradients, in double.
struct Attention {
  Vector out;  // [n, Hq D]
  Vector lse;  // [Hq, n]
  Vector d_q, d_k, d_v;
};

/// @param d_out  empty: forward only
inline Attention attention(const AttentionShape& shape,
                           const Vector& q,
                           const Vector& k,
                           const Vector& v,
                           const Vector& d_out = {}) {
  const int64_t n = shape.num_queries, s = shape.num_keys, size = shape.head_dim;
  const int64_t heads = shape.num_query_heads, group = heads / shape.num_kv_heads;
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  Attention result;
  result.out.assign(q.size(), 0);
  result.lse.assign(static_cast<size_t>(heads * n), -std::numeric_limits<double>::infinity());
  result.d_q.assign(q.size(), 0);
  result.d_k.assign(k.size(), 0);
  result.d_v.assign(k.size(), 0);
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < n; ++i) {
      const auto q_at = static_cast<size_t>((i * heads + h) * size);
      const auto k_at = [&](int64_t j) {
        return static_cast<size_t>((j * shape.num_kv_heads + h / group) * size);
      };
      const auto dot = [&](const Vector& a, size_t at, const Vector& b, size_t bt) {
        double total = 0;
        for (size_t d = 0; d < static_cast<size_t>(size); ++d) total += a[at + d] * b[bt + d];
        return total;
      };
      const int64_t seen =
          std::min(s, shape.first_query_position + i - shape.first_key_position + 1);
      if (seen <= 0) continue;
      Vector p(static_cast<size_t>(seen));
      double top = -std::numeric_limits<double>::infinity(), total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        p[static_cast<size_t>(j)] = scale * dot(q, q_at, k, k_at(j));
        top = std::max(top, p[static_cast<size_t>(j)]);
      }
      for (double& x : p) total += x = std::exp(x - top);
      result.lse[static_cast<size_t>(h * n + i)] = top + std::log(total);
      double delta = 0;
      for (int64_t j = 0; j < seen; ++j) {
        const double weight = p[static_cast<size_t>(j)] /= total;
        for (size_t d = 0; d < static_cast<size_t>(size); ++d) {
          result.out[q_at + d] += weight * v[k_at(j) + d];
        }
      }
      if (d_out.empty()) continue;
      delta = dot(result.out, q_at, d_out, q_at);
      for (int64_t j = 0; j < seen; ++j) {
        const double weight = p[static_cast<size_t>(j)];
        const double d_score = weight * (dot(d_out, q_at, v, k_at(j)) - delta) * scale;
        for (size_t d = 0; d < static_cast<size_t>(size); ++d) {
          result.d_q[q_at + d] += d_score * k[k_at(j) + d];
          result.d_k[k_at(j) + d] += d_score * q[q_at + d];
          result.d_v[k_at(j) + d] += weight * d_out[q_at + d];
        }
      }
    }
  }
  return result;
}

}  // namespace subring::reference
