#pragma once

// Include before <hwy/foreach_target.h>. Fewer instruction sets than Highway knows, for the sake of
// compile time: AVX2, AVX-512 and the baseline stay (SSE2; plain scalars in Highway 1.0). 1 << 4 is
// AVX3_SPR, which has no name yet in Highway 1.0.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3_DL | (1LL << 4))
#include <hwy/detect_targets.h>
