#pragma once

#include <hwy/targets.h>

namespace subring {

/// Calls body() once for every instruction set of this CPU that Highway knows; one that the backend
/// was not compiled for runs as the portable code does.
template <class Body>
void for_each_target(Body&& body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

}  // namespace subring
