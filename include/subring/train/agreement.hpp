#pragma once

#include <cstdint>

#include "subring/config/config.hpp"
#include "subring/wire/group.hpp"

namespace subring::train {

/// Checks that every rank was started with the same configuration and as much training data as rank
/// 0; where files lie and how many threads compute may differ from host to host. Collective.
/// @throws Error{config}  on the rank that differs, naming the first key that does
void check_agreement(const wire::Group& world, const config::Config& config, int64_t num_tokens);

}  // namespace subring::train
