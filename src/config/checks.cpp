#include <algorithm>
#include <utility>

#include "subring/config/config.hpp"
#include "subring/core/error.hpp"

namespace subring::config {

namespace {

/// Throws at the first of `paths` that the user gave, so that the message names a line of theirs;
/// at the file as a whole when all are at their defaults.
[[noreturn]] void fail(const Config& config,
                       const std::vector<std::string>& paths,
                       const std::string& message) {
  for (const std::string& path : paths) {
    const auto place = config.places.find(path);
    if (place != config.places.end()) {
      throw Error(ErrorKind::config, fmt::format("{}: {}", path, message), place->second);
    }
  }
  throw Error(ErrorKind::config, fmt::format("{}: {}", paths.front(), message), config.file);
}

void check_model(const Config& config) {
  const model::ModelOptions& m = config.model;
  if (m.hidden_size % m.num_attention_heads != 0) {
    fail(config,
         {"model.num_attention_heads", "model.hidden_size"},
         fmt::format("{} heads do not divide hidden_size {}; hidden_size must be a multiple of "
                     "num_attention_heads",
                     m.num_attention_heads,
                     m.hidden_size));
  }
  if (m.head_dim() % 2 != 0) {
    fail(config,
         {"model.num_attention_heads", "model.hidden_size"},
         fmt::format("heads of odd size {} (hidden_size {} / num_attention_heads {}); RoPE turns "
                     "pairs, so the size must be even",
                     m.head_dim(),
                     m.hidden_size,
                     m.num_attention_heads));
  }
  if (m.num_attention_heads % m.num_key_value_heads != 0) {
    fail(config,
         {"model.num_key_value_heads", "model.num_attention_heads"},
         fmt::format("{} K/V heads cannot share {} query heads evenly; num_attention_heads must be "
                     "a multiple of num_key_value_heads",
                     m.num_key_value_heads,
                     m.num_attention_heads));
  }
}

void check_data(const Config& config) {
  if (config.data.train.empty()) {
    fail(config, {"data.train"}, "is not given; must be a glob of token shards (subring tokenize)");
  }
  const int64_t chunks = config.parallelism.chunks;
  if (chunks > 0 && config.data.seq_len % chunks != 0) {
    fail(
        config,
        {"parallelism.chunks", "data.seq_len"},
        fmt::format("{} chunks do not divide data.seq_len {}; seq_len must be a multiple of chunks",
                    chunks,
                    config.data.seq_len));
  }
  const int64_t groups = config.parallelism.data_parallel_degree;
  if (config.data.batch_size % groups != 0) {
    fail(config,
         {"parallelism.data_parallel_degree", "data.batch_size"},
         fmt::format("{} groups do not divide data.batch_size {}; batch_size must be a multiple of "
                     "data_parallel_degree",
                     groups,
                     config.data.batch_size));
  }
}

void check_subspaces(const Config& config) {
  const codec::CompressionOptions& c = config.compression;
  const int64_t width = config.model.kv_width();
  for (const auto& [path, rank] : {std::pair{"compression.key_rank", c.key_rank},
                                   std::pair{"compression.value_rank", c.value_rank}}) {
    if (rank > width) {
      fail(config,
           {path, "model.num_key_value_heads", "model.hidden_size"},
           fmt::format("rank {} exceeds the width of K and V; must be at most {} "
                       "(num_key_value_heads * hidden_size / num_attention_heads)",
                       rank,
                       width));
    }
  }
  if (c.rotation.kind != codec::RotationKind::none && c.rotation.generators > width / 2) {
    fail(config,
         {"compression.rotation.generators"},
         fmt::format("{} generators need a plane each; must be at most {}, half the width of K",
                     c.rotation.generators,
                     width / 2));
  }
}

void check_latent(const Config& config) {
  const codec::CompressionOptions& c = config.compression;
  const int64_t limit = std::min(config.model.hidden_size, 2 * config.model.kv_width());
  if (c.latent_rank > limit) {
    fail(config,
         {"compression.latent_rank", "model.num_key_value_heads", "model.hidden_size"},
         fmt::format("rank {} is more than a latent of K and V can use; must be at most {}, the "
                     "smaller of hidden_size and twice the width of K",
                     c.latent_rank,
                     limit));
  }
  if (c.unplug_at_step >= 0 && !c.exact_local) {
    fail(
        config,
        {"compression.unplug_at_step", "compression.exact_local"},
        "without exact_local the latent replaces the plain K and V, so there is nothing to go back "
        "to; must be never, or set exact_local: true");
  }
}

void check_topk(const Config& config) {
  if (config.model.kv_width() > kMaxSparseWidth) {
    fail(config,
         {"compression.codec", "model.num_key_value_heads", "model.hidden_size"},
         fmt::format("topk sends columns as 16 bits, so K and V of width {} are too wide; must be "
                     "at most {} (num_key_value_heads * hidden_size / num_attention_heads)",
                     config.model.kv_width(),
                     kMaxSparseWidth));
  }
}

void check_quantize(const Config& config) {
  const FrameFormat format = config.compression.wire_dtype;
  if (format != FrameFormat::int8 && format != FrameFormat::int4) {
    fail(
        config,
        {"compression.wire_dtype", "compression.codec"},
        fmt::format("codec quantize sends K and V in few bits, {} is not; must be int8 or int4, or "
                    "set compression.codec: none",
                    to_string(format)));
  }
}

void check_compression(const Config& config) {
  const codec::CompressionOptions& c = config.compression;
  switch (c.codec) {
    case codec::Codec::none: return;
    case codec::Codec::subspace: check_subspaces(config); break;
    case codec::Codec::latent: check_latent(config); break;
    case codec::Codec::topk: check_topk(config); break;
    case codec::Codec::quantize: check_quantize(config); break;
  }
  if (c.unplug_at_step >= 0 &&
      (c.unplug_at_step <= c.warmup_steps || c.unplug_at_step > config.training.steps)) {
    fail(
        config,
        {"compression.unplug_at_step", "compression.warmup_steps", "training.steps"},
        fmt::format("unplug_at_step {} is outside the compressed steps; must be above warmup_steps "
                    "{} and at most training.steps {}, or never",
                    c.unplug_at_step,
                    c.warmup_steps,
                    config.training.steps));
  }
}

void check_weight_sync(const Config& config) {
  const sync::SyncOptions& s = config.weight_sync;
  if (s.method == sync::SyncMethod::average) return;
  if (s.every != 1) {
    fail(config,
         {"weight_sync.every"},
         fmt::format("{} steps between averages, but method all_reduce sums gradients every step; "
                     "must be 1, or set weight_sync.method: average",
                     s.every));
  }
  if (s.average_moments) {
    fail(config,
         {"weight_sync.average_moments"},
         "method all_reduce averages nothing; must be false, or set weight_sync.method: average");
  }
  if (s.overlap) {
    fail(config,
         {"weight_sync.overlap"},
         "method all_reduce needs each step's gradient at once; must be false, or set "
         "weight_sync.method: average");
  }
}

/// What is wrong with the entries of `network` whatever the number of ranks.
void check_network(const Config& config) {
  const auto& ranks = config.network.ranks;
  for (auto entry = ranks.begin(); entry != ranks.end(); ++entry) {
    if (std::any_of(ranks.begin(), entry, [&](const auto& e) { return e.rank == entry->rank; })) {
      fail(config, {"network.ranks"}, fmt::format("rank {} is given twice; keep one", entry->rank));
    }
  }
  const auto& links = config.network.links;
  for (auto link = links.begin(); link != links.end(); ++link) {
    if (link->from == link->to) {
      fail(config,
           {"network.links"},
           fmt::format("from {} to itself; must be two ranks", link->from));
    }
    if (std::any_of(links.begin(), link, [&](const auto& other) {
          return other.from == link->from && other.to == link->to;
        })) {
      fail(config,
           {"network.links"},
           fmt::format("from {} to {} is given twice; keep one", link->from, link->to));
    }
  }
}

void check_network_for_ranks(const Config& config, int num_ranks) {
  const auto check = [&](const char* path, int rank) {
    if (rank < num_ranks) return;
    fail(config,
         {path},
         fmt::format(
             "there is no rank {} among {}; must be 0 to {}", rank, num_ranks, num_ranks - 1));
  };
  for (const wire::RankBandwidth& entry : config.network.ranks) check("network.ranks", entry.rank);
  for (const wire::LinkOverride& link : config.network.links) {
    check("network.links", std::max(link.from, link.to));
  }
}

}  // namespace

void check_config(const Config& config) {
  check_model(config);
  check_data(config);
  check_compression(config);
  check_weight_sync(config);
  check_network(config);
  if (config.parallelism.pipeline_parallel_degree != 1) {
    fail(config,
         {"parallelism.pipeline_parallel_degree"},
         "pipeline parallelism is not available yet; must be 1");
  }
}

ResolvedParallelism resolve_parallelism(const Config& config, int num_ranks) {
  const mesh::ParallelismOptions& p = config.parallelism;
  ResolvedParallelism result;
  result.data_parallel_degree = p.data_parallel_degree;
  if (num_ranks < 1 || num_ranks % p.data_parallel_degree != 0) {
    fail(
        config,
        {"parallelism.data_parallel_degree"},
        fmt::format("{} groups do not divide {} ranks; start a multiple of {} ranks, or change the "
                    "degree",
                    p.data_parallel_degree,
                    num_ranks,
                    p.data_parallel_degree));
  }
  result.context_parallel_degree = p.context_parallel_degree > 0
                                       ? p.context_parallel_degree
                                       : num_ranks / p.data_parallel_degree;
  const int64_t needed = result.context_parallel_degree * p.data_parallel_degree;
  if (needed != num_ranks) {
    fail(config,
         {"parallelism.context_parallel_degree", "parallelism.data_parallel_degree"},
         fmt::format("context {} x data {} needs {} ranks, but {} started; start {} ranks, or set "
                     "context_parallel_degree: auto",
                     result.context_parallel_degree,
                     p.data_parallel_degree,
                     needed,
                     num_ranks,
                     needed));
  }
  const bool is_zigzag = p.load_balancer == mesh::LoadBalancer::zigzag;
  const int64_t unit = result.context_parallel_degree * (is_zigzag ? 2 : 1);
  result.chunks = p.chunks > 0 ? p.chunks : unit;
  if (result.chunks % unit != 0) {
    fail(config,
         {"parallelism.chunks", "parallelism.context_parallel_degree"},
         fmt::format("{} chunks cannot be shared by {} ranks with load_balancer {}; must be a "
                     "multiple of {}, or auto",
                     result.chunks,
                     result.context_parallel_degree,
                     to_string(p.load_balancer),
                     unit));
  }
  if (config.data.seq_len % result.chunks != 0) {
    fail(config,
         {"data.seq_len", "parallelism.chunks", "parallelism.context_parallel_degree"},
         fmt::format("{} tokens do not divide into {} chunks; seq_len must be a multiple of {}",
                     config.data.seq_len,
                     result.chunks,
                     result.chunks));
  }
  result.chunk_tokens = config.data.seq_len / result.chunks;
  result.sequences_per_group = config.data.batch_size / p.data_parallel_degree;
  return result;
}

void check_config_for_ranks(const Config& config, int num_ranks) {
  resolve_parallelism(config, num_ranks);
  check_network_for_ranks(config, num_ranks);
}

std::vector<std::string> config_warnings(const Config& config) {
  std::vector<std::string> warnings;
  const codec::CompressionOptions& c = config.compression;
  if (c.codec == codec::Codec::subspace) {
    if (c.rotation.source == codec::RotationSource::chunk && !c.exact_local &&
        c.rotation.kind != codec::RotationKind::none) {
      warnings.push_back(
          "compression.rotation.source: chunk without exact_local lets a token see, through the "
          "angle, tokens after it: losses are too good; use exact_local: true or source: "
          "previous_chunk");
    }
  }
  if (c.codec != codec::Codec::none) {
    if (c.warmup_steps >= config.training.steps) {
      warnings.push_back(
          fmt::format("compression.warmup_steps {} covers all {} steps: this run never compresses",
                      c.warmup_steps,
                      config.training.steps));
    }
    if (config.parallelism.chunks == 1 && c.exact_local) {
      warnings.push_back(
          "parallelism.chunks: 1 with exact_local: there is no other chunk, so nothing is "
          "compressed");
    }
  }
  const sync::SyncOptions& s = config.weight_sync;
  const int64_t interval = config.training.eval_interval;
  if (s.method == sync::SyncMethod::average && !config.data.validation.empty() && interval > 0 &&
      (s.overlap || interval % s.every != 0)) {
    warnings.push_back(
        "training.eval_interval: evaluations between two averages read the replicas as they stand, "
        "each rank its own weights; only the last one, after the last step, is of one model");
  }
  if (config.lr_scheduler.warmup_steps >= config.training.steps) {
    warnings.push_back(
        fmt::format("lr_scheduler.warmup_steps {} covers all {} steps: the learning rate never "
                    "reaches its peak",
                    config.lr_scheduler.warmup_steps,
                    config.training.steps));
  }
  return warnings;
}

}  // namespace subring::config
