#pragma once

#include <filesystem>
#include <map>
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
  wire::NetworkOptions network;
  wire::WireOptions wire;
  BackendOptions backend;
  train::MetricsOptions metrics;

  /// Where each key that is not at its default was given: "file:line" or "--set". For messages.
  std::map<std::string, std::string> places;
  /// The file itself, for messages about keys that were not given; empty: made in memory.
  std::string file;
};

/// Reads `path`, applies `overrides` ("key.path=value", in order) under the same checks.
/// The value of an override is YAML, so `optimizer.betas=[0.9, 0.99]` works; that of a text key
/// (a glob, say) is taken as it stands.
/// @throws Error{config}  one line "file:line: key: what is wrong; what would be right"
Config load_config(const std::filesystem::path& path, const std::vector<std::string>& overrides);

/// Checks that hold for any number of ranks: sizes divide, ranks fit, steps are in order.
/// load_config has called it. @throws Error{config}
void check_config(const Config& config);

/// Checks that need the number of ranks: degrees multiply to it, chunks and sequence divide.
/// @throws Error{config}
void check_config_for_ranks(const Config& config, int num_ranks);

/// Degrees with automatic values filled in.
struct ResolvedParallelism {
  int64_t context_parallel_degree = 1;
  int64_t data_parallel_degree = 1;
  int64_t chunks = 1;               ///< per sequence
  int64_t chunk_tokens = 1;         ///< data.seq_len / chunks
  int64_t sequences_per_group = 1;  ///< of one step, in one data-parallel group
};

/// What `parallelism` means on `num_ranks` ranks. @throws Error{config} as check_config_for_ranks
ResolvedParallelism resolve_parallelism(const Config& config, int num_ranks);

/// What is allowed but probably not meant, one line each; empty when all is well.
std::vector<std::string> config_warnings(const Config& config);

/// The complete configuration as JSON text, every key with its value (for metrics.jsonl). It is a
/// valid configuration file of the same run.
std::string to_json(const Config& config);

/// What is known about one key; configs/reference.yaml is tested against it.
struct KeyInfo {
  std::string path;           ///< "section.key"
  std::string unit;           ///< empty: a plain number, name or switch
  std::string allowed;        ///< e.g. "an integer from 1 to 65536" or "one of none, subspace"
  std::string default_value;  ///< as JSON
  std::string doc;
};

/// Every key, in the order of the sections in docs and JSON.
std::vector<KeyInfo> known_keys();

}  // namespace subring::config
