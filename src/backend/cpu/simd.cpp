#include "simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/simd.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels.hpp"

HWY_BEFORE_NAMESPACE();
namespace subring::cpu::HWY_NAMESPACE {

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace subring::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subring::cpu {

HWY_EXPORT(target_name);

std::string simd_description() {
  return std::string("Highway ") + HWY_DYNAMIC_DISPATCH(target_name)();
}

}  // namespace subring::cpu
#endif
