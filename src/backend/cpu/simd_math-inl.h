// Vector functions shared by the CPU kernels; included once per target by foreach_target.h.
#if defined(SUBRING_SIMD_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef SUBRING_SIMD_MATH_INL_H
#undef SUBRING_SIMD_MATH_INL_H
#else
#define SUBRING_SIMD_MATH_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Adding it rounds a float of magnitude below 2^22 to the nearest integer, ties to even, and leaves
// that integer in the low bits: cheaper than a conversion, and SSE2 has no rounding instruction.
constexpr float kRoundingMagic = 12582912.0F;  // 1.5 * 2^23

/// 2^k of the integer in the low bits of t = k + kRoundingMagic; -127 < k < 128.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V power_of_two(D d, V t) {
  const hn::RebindToSigned<D> di;
  const auto bits = hn::ShiftLeft<23>(hn::BitCast(di, t));
  return hn::BitCast(d, hn::Add(bits, hn::Set(di, 127 << 23)));
}

/// 2^x for x <= 127, 0 below -126, NaN for NaN. Largest relative error found: 2.2e-7 (2.5e-7
/// where there is no fused multiply-add), of which 1.6e-7 is the polynomial's: degree 5, Remez,
/// constant term set to 1 so that 2^0 = 1.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp2(D d, V x) {
  const V magic = hn::Set(d, kRoundingMagic);
  const V t = hn::Add(x, magic);
  const V r = hn::Sub(x, hn::Sub(t, magic));
  V p = hn::MulAdd(hn::Set(d, 1.327646896e-03F), r, hn::Set(d, 9.675540961e-03F));
  p = hn::MulAdd(p, r, hn::Set(d, 5.550713465e-02F));
  p = hn::MulAdd(p, r, hn::Set(d, 2.402212024e-01F));
  p = hn::MulAdd(p, r, hn::Set(d, 6.931469440e-01F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  const auto tiny = hn::Lt(x, hn::Set(d, -126.0F));
  return hn::IfThenZeroElse(tiny, hn::Mul(p, power_of_two(d, t)));
}

/// e^x: 0 below -87.3 (where the result leaves the normal numbers), infinity above 88.3, NaN for
/// NaN. Largest relative error found: 2.5e-7 (2.7e-7 where there is no fused multiply-add).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp(D d, V x) {
  const V lowest = hn::Set(d, -87.3F);
  const V highest = hn::Set(d, 88.3F);
  const V magic = hn::Set(d, kRoundingMagic);
  const V t = hn::MulAdd(x, hn::Set(d, 1.44269504F), magic);
  const V k = hn::Sub(t, magic);
  // ln 2 in two parts, the first short enough that k times it is exact.
  V r = hn::NegMulAdd(k, hn::Set(d, 0.693359375F), x);
  r = hn::NegMulAdd(k, hn::Set(d, -2.12194440e-4F), r);
  V p = hn::MulAdd(hn::Set(d, 8.297619410e-03F), r, hn::Set(d, 4.191562906e-02F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.666757613e-01F));
  p = hn::MulAdd(p, r, hn::Set(d, 4.999889135e-01F));
  p = hn::MulAdd(p, r, hn::Set(d, 9.999997020e-01F));
  p = hn::MulAdd(p, r, hn::Set(d, 1.0F));
  p = hn::Mul(p, power_of_two(d, t));
  p = hn::IfThenZeroElse(hn::Lt(x, lowest), p);
  return hn::IfThenElse(hn::Gt(x, highest), hn::Set(d, std::numeric_limits<float>::infinity()), p);
}

/// Calls body(i, load, store) for all vectors of [0, count). `load(p)` and `store(v, p)` take the
/// pointer of element i; in the last, partial vector they touch only what exists and load zeros.
template <class D, class Body>
HWY_INLINE void for_each_vector(D d, int64_t count, Body&& body) {
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    body(
        i,
        [d](const float* p) HWY_ATTR { return hn::LoadU(d, p); },
        [d](hn::Vec<D> v, float* p) HWY_ATTR { hn::StoreU(v, d, p); });
  }
  if (i == count) return;
  HWY_ALIGN float buffer[hn::MaxLanes(D())];
  const auto rest = static_cast<size_t>(count - i);
  body(
      i,
      [&](const float* p) HWY_ATTR {
        hn::Store(hn::Zero(d), d, buffer);
        for (size_t j = 0; j < rest; ++j) buffer[j] = p[j];
        return hn::Load(d, buffer);
      },
      [&](hn::Vec<D> v, float* p) HWY_ATTR {
        hn::Store(v, d, buffer);
        for (size_t j = 0; j < rest; ++j) p[j] = buffer[j];
      });
}

template <class D>
HWY_INLINE float lane_sum(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::SumOfLanes(d, v));
}

template <class D>
HWY_INLINE float lane_max(D d, hn::Vec<D> v) {
  return hn::GetLane(hn::MaxOfLanes(d, v));
}

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
