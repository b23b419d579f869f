#pragma once

#include <cstdint>

#include "subring/core/enum_names.hpp"

namespace subring::mesh {

enum class LoadBalancer { contiguous, zigzag };
constexpr EnumNames<LoadBalancer, 2> enum_names(LoadBalancer) {
  return {{{LoadBalancer::contiguous, "contiguous"}, {LoadBalancer::zigzag, "zigzag"}}};
}

/// Section `parallelism`.
struct ParallelismOptions {
  int64_t context_parallel_degree =
      0;  ///< ranks that share one sequence; 0: all ranks / other degrees
  int64_t pipeline_parallel_degree = 1;  ///< only 1 for now
  int64_t data_parallel_degree = 1;      ///< groups of context-parallel ranks with own sequences
  int64_t chunks = 0;  ///< per sequence; 0: one a rank (contiguous) or two a rank (zigzag)
  LoadBalancer load_balancer = LoadBalancer::contiguous;
};

}  // namespace subring::mesh
