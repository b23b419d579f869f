#pragma once

#include "cost_backend.hpp"
#include "subring/report/plan.hpp"

namespace subring::report {

/// One rank's step up to some point.
struct Mark {
  double now = 0, computed = 0, waited = 0;
};

/// What one rank did in a rehearsed step.
struct RankRehearsal {
  int64_t num_sequences = 0;    ///< rehearsed: at most two, the others go as the second
  std::vector<Mark> sequences;  ///< 2 a sequence: after the loss, after the backward pass
  Mark reduced;                 ///< gradients are exchanged
  Mark updated;
  Mark averaged;  ///< weights are exchanged
  Mark end;
  wire::TrafficBytes kv_bytes{};  ///< sent by one sequence
  wire::TrafficBytes bytes{};     ///< sent in all
  std::map<std::string, int64_t> memory;
  int64_t block_bytes = 0;
  int64_t chunk_tokens = 0;
};

/// Goes through one step as Trainer::train_step does (src/train/trainer.cpp), in virtual time.
RankRehearsal rehearse_step(const PlanInputs& inputs, OperationCosts& costs, VirtualRank& rank);

}  // namespace subring::report
