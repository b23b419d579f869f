#include "config/support.hpp"
#include "support/catch.hpp"

namespace subring::config {

namespace {

/// The message of check_config_for_ranks for the minimal file with `text` below it.
std::string ranks_error(const std::string& text, int num_ranks) {
  const TemporaryFile file(kMinimal + text);
  const Config config = load_config(file.path(), {});
  try {
    check_config_for_ranks(config, num_ranks);
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::config);
    std::string message = e.what();
    const std::string name = file.path().string();
    if (message.rfind(name, 0) == 0) message.replace(0, name.size(), "c.yaml");
    return message;
  }
  return "(accepted)";
}

bool starts_with(const std::string& text, const std::string& start) {
  return text.rfind(start, 0) == 0;
}

}  // namespace

TEST_CASE("impossible combinations are refused at the key that the user gave") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"model: {hidden_size: 100}\n", "c.yaml:2: model.hidden_size: 8 heads do not divide"},
      {"model:\n  num_attention_heads: 7\n",
       "c.yaml:3: model.num_attention_heads: 7 heads do not divide hidden_size 256; "},
      {"model: {hidden_size: 40}\n", "c.yaml:2: model.hidden_size: heads of odd size 5 "},
      {"model: {num_key_value_heads: 3}\n",
       "c.yaml:2: model.num_key_value_heads: 3 K/V heads cannot share 8 query heads"},
      {"model: {num_key_value_heads: 16}\n", "c.yaml:2: model.num_key_value_heads: 16 K/V heads"},
      {"parallelism: {chunks: 3}\n", "c.yaml:2: parallelism.chunks: 3 chunks do not divide"},
      {"parallelism: {data_parallel_degree: 2}\n",
       "c.yaml:2: parallelism.data_parallel_degree: 2 groups do not divide data.batch_size 1; "},
      {"compression: {key_rank: 257}\n",
       "c.yaml:2: compression.key_rank: rank 257 exceeds the width of K and V; must be at most "
       "256"},
      {"compression: {codec: latent, latent_rank: 257}\n",
       "c.yaml:2: compression.latent_rank: rank 257 is more than a latent of K and V can use; must "
       "be at most 256"},
      {"compression: {codec: latent, unplug_at_step: 500, exact_local: false}\n",
       "c.yaml:2: compression.unplug_at_step: without exact_local the latent replaces the plain K "
       "and V"},
      {"compression: {value_rank: 257}\n", "c.yaml:2: compression.value_rank: rank 257 exceeds"},
      {"model: {num_key_value_heads: 1, hidden_size: 128}\n",
       "c.yaml:2: model.num_key_value_heads: rank 32 exceeds"},
      {"compression:\n  rotation: {generators: 129}\n",
       "c.yaml:3: compression.rotation.generators: 129 generators need a plane each; must be at "
       "most 128"},
      {"compression: {unplug_at_step: 100}\n",
       "c.yaml:2: compression.unplug_at_step: unplug_at_step 100 is outside"},
      {"compression: {unplug_at_step: 1001}\n",
       "c.yaml:2: compression.unplug_at_step: unplug_at_step 1001 is outside"},
      {"compression: {codec: topk, unplug_at_step: 100}\n",
       "c.yaml:2: compression.unplug_at_step: unplug_at_step 100 is outside"},
      {"compression: {codec: topk}\nmodel: {hidden_size: 131072}\n",
       "c.yaml:2: compression.codec: topk sends columns as 16 bits, so K and V of width 131072"},
      {"compression: {codec: quantize, wire_dtype: bf16}\n",
       "c.yaml:2: compression.wire_dtype: codec quantize sends K and V in few bits, bf16 is not"},
      {"weight_sync: {every: 4}\n", "c.yaml:2: weight_sync.every: 4 steps between averages"},
      {"weight_sync: {average_moments: true}\n", "c.yaml:2: weight_sync.average_moments: method"},
      {"weight_sync: {overlap: true}\n", "c.yaml:2: weight_sync.overlap: method"},
      {"weight_sync: {wire_dtype: int4}\n", "c.yaml:2: weight_sync.wire_dtype: "},
  };
  for (const auto& [text, start] : cases) {
    const std::string message = error_of(kMinimal + text);
    INFO(text << "-> " << message);
    // The key of the first column that is at fault may be one at its default; then the message
    // stands at the file. Here each names a line.
    CHECK(starts_with(message, start));
    CHECK(message.find('\n') == std::string::npos);
  }
  CHECK(error_of("training: {steps: 5}\n") ==
        "c.yaml: data.train: is not given; must be a glob of token shards (subring tokenize)");
}

TEST_CASE("combinations at their bounds are accepted") {
  CHECK(error_of(kMinimal + "compression: {key_rank: 256, value_rank: 256}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "compression: {rotation: {generators: 128}}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "compression: {codec: topk, topk_fraction: 1}\n"
                            "model: {hidden_size: 65536}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "compression: {codec: quantize, wire_dtype: int4, key_rank: 999}\n") ==
        "(accepted)");
  CHECK(error_of(kMinimal + "compression: {codec: latent, latent_rank: 256}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "compression: {latent_rank: 999}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "compression: {unplug_at_step: 101}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "compression: {unplug_at_step: 1000}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "compression: {warmup_steps: 10}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "compression: {warmup_steps: 0}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "weight_sync: {method: average, every: 4, average_moments: true}\n") ==
        "(accepted)");
  CHECK(error_of(kMinimal + "weight_sync: {wire_dtype: int8}\n") == "(accepted)");
  CHECK(error_of(kMinimal + "weight_sync: {method: average, overlap: true, wire_dtype: bf16}\n") ==
        "(accepted)");
  // Ranks of subspaces do not matter without them: --set compression.codec=none must work.
  CHECK(error_of(kMinimal + "compression: {codec: none, key_rank: 999}\n") == "(accepted)");
}

TEST_CASE("ranks that do not match the mesh are refused") {
  CHECK(starts_with(ranks_error("parallelism: {context_parallel_degree: 4}\n", 3),
                    "c.yaml:2: parallelism.context_parallel_degree: context 4 x data 1 needs 4 "
                    "ranks, but 3 started; start 4 ranks"));
  CHECK(starts_with(ranks_error("", 3),
                    "c.yaml: data.seq_len: 1024 tokens do not divide into 3 chunks"));
  CHECK(starts_with(ranks_error("parallelism: {chunks: 4}\n", 8),
                    "c.yaml:2: parallelism.chunks: 4 chunks cannot be shared by 8 ranks"));
  CHECK(starts_with(ranks_error("parallelism: {chunks: 4, load_balancer: zigzag}\n", 4),
                    "c.yaml:2: parallelism.chunks: 4 chunks cannot be shared by 4 ranks with "
                    "load_balancer zigzag; must be a multiple of 8"));
  CHECK(ranks_error("parallelism: {chunks: 8, load_balancer: zigzag}\n", 4) == "(accepted)");
  CHECK(ranks_error("", 1) == "(accepted)");
  CHECK(ranks_error("", 8) == "(accepted)");
  Config config = load_text(kMinimal, {"parallelism.data_parallel_degree=2", "data.batch_size=4"});
  CHECK_THROWS_AS(check_config_for_ranks(config, 3), Error);
  CHECK_THROWS_AS(check_config_for_ranks(config, 0), Error);
  CHECK_NOTHROW(check_config_for_ranks(config, 2));
}

TEST_CASE("automatic degrees are resolved") {
  Config config;
  ResolvedParallelism r = resolve_parallelism(config, 4);
  CHECK(r.context_parallel_degree == 4);
  CHECK(r.chunks == 4);
  CHECK(r.chunk_tokens == 256);
  config.parallelism.load_balancer = mesh::LoadBalancer::zigzag;
  r = resolve_parallelism(config, 4);
  CHECK(r.chunks == 8);
  CHECK(r.chunk_tokens == 128);
  config.parallelism.data_parallel_degree = 2;
  config.data.batch_size = 6;
  r = resolve_parallelism(config, 8);
  CHECK(r.context_parallel_degree == 4);
  CHECK(r.data_parallel_degree == 2);
  CHECK(r.sequences_per_group == 3);
  config.parallelism.chunks = 16;
  CHECK(resolve_parallelism(config, 8).chunks == 16);
  CHECK(resolve_parallelism(config, 8).chunk_tokens == 64);
}

TEST_CASE("what is allowed but hardly meant is warned of") {
  const auto warnings = [](const std::vector<std::string>& overrides) {
    return config_warnings(load_text(kMinimal, overrides));
  };
  CHECK(warnings({}).empty());
  const auto not_causal = warnings({"compression.exact_local=false"});
  REQUIRE(not_causal.size() == 1);
  CHECK(not_causal[0].find("tokens after it") != std::string::npos);
  CHECK(warnings({"compression.exact_local=false", "compression.rotation.source=previous_chunk"})
            .empty());
  CHECK(warnings({"compression.exact_local=false", "compression.rotation.kind=none"}).empty());
  CHECK(warnings({"compression.exact_local=false", "compression.codec=none"}).empty());
  const std::string validation = "data.validation=v_*.bin";
  CHECK(warnings({validation, "weight_sync.method=average", "weight_sync.every=10"}).empty());
  CHECK(warnings({validation, "weight_sync.method=average", "weight_sync.every=7"}).size() == 1);
  CHECK(warnings({validation,
                  "weight_sync.method=average",
                  "weight_sync.every=10",
                  "weight_sync.overlap=true"})
            .size() == 1);
  CHECK(warnings({"training.steps=100"}).size() == 1);
  CHECK(warnings({"training.steps=50"}).size() == 2);
  CHECK(warnings({"parallelism.chunks=1"}).size() == 1);
}

}  // namespace subring::config
