#pragma once

#include <cstdint>
#include <string>

namespace subring::data {

/// Section `data`.
struct DataOptions {
  std::string train;       ///< glob of llm.c token shards to train on
  std::string validation;  ///< glob of held-out shards; empty: no evaluation
  int64_t seq_len = 1024;  ///< tokens of one sequence, over all its ranks
  int64_t batch_size = 1;  ///< sequences of one step, over all data-parallel replicas
  bool shuffle = true;     ///< seeded order of sequences, another one each epoch
};

}  // namespace subring::data
