#include "subring/train/description.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "subring/ring/schedule.hpp"
#include "subring/sync/weight_sync.hpp"

namespace subring::train {
namespace {

using nlohmann::ordered_json;

double mib(int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Bytes of this rank by name.
ordered_json memory_json(const RunFacts& facts) {
  ordered_json memory = ordered_json::object();
  for (const Arena* arena : facts.arenas) {
    for (const auto& [name, bytes] : arena->report()) {
      memory[name] = memory.value(name, int64_t{0}) + bytes;
    }
  }
  return memory;
}

int64_t weight_bytes_of_sync(const RunFacts& facts) {
  constexpr int kNumMoments = 2;
  return sync::weight_bytes_of_sync(facts.config.weight_sync,
                                    facts.mesh.world.size(),
                                    facts.transformer.parameters().flat_values().num_elements(),
                                    kNumMoments);
}

}  // namespace

int64_t kv_bytes_of_step(const config::Config& config,
                         const ring::ChunkMap& chunks,
                         int64_t block_bytes) {
  const std::vector<int> sent = ring::blocks_sent(chunks);
  const int64_t blocks = std::accumulate(sent.begin(), sent.end(), int64_t{0});
  // Each block that goes out comes back as a gradient of the same size.
  return 2 * blocks * block_bytes * config.model.num_hidden_layers * config.data.batch_size;
}

int64_t uncompressed_kv_bytes_of_step(const config::Config& config, const ring::ChunkMap& chunks) {
  return kv_bytes_of_step(config, chunks, chunks.chunk_tokens * 2 * config.model.kv_width() * 2);
}

double model_flops_of_step(const config::Config& config, int64_t num_matmul_parameters) {
  const auto seq_len = static_cast<double>(config.data.seq_len);
  const double tokens = static_cast<double>(config.data.batch_size) * seq_len;
  const double attention = 6 * seq_len * static_cast<double>(config.model.hidden_size) *
                           static_cast<double>(config.model.num_hidden_layers);
  return tokens * (6 * static_cast<double>(num_matmul_parameters) + attention);
}

std::vector<std::string> describe_run(const RunFacts& facts) {
  const mesh::Mesh& mesh = facts.mesh;
  const ring::ChunkMap& chunks = facts.chunks;
  std::vector<std::string> lines;
  if (facts.config.network.emulated()) {
    lines.push_back("emulated network: " + wire::describe(facts.config.network));
  }
  lines.push_back(fmt::format("backend {}", facts.backend.description()));
  lines.push_back(fmt::format("{} parameters; {} ranks = {} data parallel x {} context parallel",
                              facts.transformer.parameters().num_parameters(),
                              mesh.world.size(),
                              mesh.degrees.dp,
                              mesh.degrees.cp));
  lines.push_back(fmt::format("{} chunks of {} tokens, {} a rank ({})",
                              chunks.num_chunks(),
                              chunks.chunk_tokens,
                              chunks.num_chunks() / mesh.cp.size(),
                              to_string(facts.config.parallelism.load_balancer)));
  lines.push_back(fmt::format("training data: {} sequences of {} tokens, {} a step",
                              facts.num_sequences,
                              facts.config.data.seq_len,
                              facts.config.data.batch_size));
  const codec::CompressionOptions& compression = facts.config.compression;
  const int64_t uncompressed = uncompressed_kv_bytes_of_step(facts.config, chunks);
  const auto traffic = [&](std::string_view what, const codec::BlockLayout& layout) {
    const int64_t bytes = kv_bytes_of_step(facts.config, chunks, layout.block_bytes());
    const double share =
        uncompressed == 0 ? 1 : static_cast<double>(bytes) / static_cast<double>(uncompressed);
    const std::string thinned =
        layout.kept == 0 ? ""
                         : fmt::format("{} of {} entries, ", layout.kept, layout.widths.front());
    lines.push_back(
        fmt::format("{}: K and V as {}{}, {} bytes a step over all ranks, {:.2f} % of "
                    "uncompressed bf16",
                    what,
                    thinned,
                    to_string(layout.format),
                    bytes,
                    100 * share));
  };
  if (compression.codec == codec::Codec::none) {
    traffic("uncompressed", facts.transformer.layout_of(model::KvForm::plain));
  } else {
    if (compression.warmup_steps > 0) {
      traffic("warm start", facts.transformer.layout_of(model::KvForm::plain));
    }
    traffic("compressed", facts.transformer.layout_of(model::KvForm::subspace));
  }
  const sync::SyncOptions& weight_sync = facts.config.weight_sync;
  if (mesh.world.size() > 1) {
    const bool averages = weight_sync.method == sync::SyncMethod::average;
    lines.push_back(fmt::format(
        "weights: {} in {}, {} bytes {} over all ranks",
        averages ? "averages" : "gradients",
        to_string(weight_sync.wire_dtype),
        weight_bytes_of_sync(facts),
        averages ? fmt::format("every {} steps", weight_sync.every) : std::string("a step")));
  }
  int64_t total = 0;
  const ordered_json memory = memory_json(facts);
  for (const auto& [name, bytes] : memory.items()) total += bytes.get<int64_t>();
  lines.push_back(fmt::format("memory of rank {}: {:.1f} MiB", mesh.world.index, mib(total)));
  for (const auto& [name, bytes] : memory.items()) {
    lines.push_back(fmt::format("  {:<20} {:10.1f} MiB", name, mib(bytes)));
  }
  return lines;
}

std::string run_json(const RunFacts& facts) {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const mesh::Mesh& mesh = facts.mesh;
  const ordered_json run = {{"version", SUBRING_VERSION},
                            {"config", ordered_json::parse(config::to_json(facts.config))},
                            {"mesh",
                             {{"ranks", mesh.world.size()},
                              {"data_parallel", mesh.degrees.dp},
                              {"pipeline_parallel", mesh.degrees.pp},
                              {"context_parallel", mesh.degrees.cp},
                              {"chunks", facts.chunks.num_chunks()}}},
                            {"network",
                             (facts.config.network.emulated() ? "emulated: " : "") +
                                 wire::describe(facts.config.network)},
                            {"host", host},
                            {"backend", facts.backend.description()},
                            {"num_parameters", facts.transformer.parameters().num_parameters()},
                            {"peak_flops", facts.peak_flops},
                            {"memory_bytes", memory_json(facts)}};
  return run.dump();
}

int64_t peak_resident_bytes() {
  rusage usage{};
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace subring::train
