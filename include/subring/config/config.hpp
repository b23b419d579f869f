#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "subring/backend/options.hpp"
#include "subring/codec/options.hpp"
#include "subring/data/options.hpp"
#include "subring/mesh/options.hpp"
#include "subring/model/options.hpp"
#include "subring/sync/options.hpp"
#include "subring/train/options.hpp"
#include "subring/wire/options.hpp"

namespace subring::config {

/// One training run, as read from YAML; a field a section, declared by the layer that uses it.
struct Config {
  model::ModelOptions model;
  data::DataOptions data;
  train::TrainingOptions training;
  train::OptimizerOptions optimizer;
  train::LrSchedulerOptions lr_scheduler;
  mesh::ParallelismOptions parallelism;
  codec::CompressionOptions compression;
  sync::SyncOptions weight_sync;
  wire::WireOptions wire;
  BackendOptions backend;
  train::MetricsOptions metrics;
};

/// Reads `path`, applies `overrides` ("key.path=value", in order) under the same checks.
/// @throws Error{config}  one line "file:line: key: what is wrong; what would be right"
Config load_config(const std::filesystem::path& path, const std::vector<std::string>& overrides);

/// Checks that need the number of ranks: degrees multiply to it, chunks and sequence divide.
/// @throws Error{config}
void check_config_for_ranks(const Config& config, int num_ranks);

/// The complete configuration as JSON text, every key with its value (for metrics.jsonl).
std::string to_json(const Config& config);

}  // namespace subring::config
