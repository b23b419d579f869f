#include "subring/config/config.hpp"

#include <sstream>

#include "config/support.hpp"
#include "support/catch.hpp"

namespace subring::config {

namespace {

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

TEST_CASE("reference.yaml holds every key at its default") {
  const std::string path = std::string(SUBRING_SOURCE_DIR) + "/configs/reference.yaml";
  const Config reference = load_config(path, {});
  for (const KeyInfo& key : known_keys()) {
    INFO(key.path);
    CHECK(reference.places.count(key.path) == 1);
    CHECK_FALSE(key.doc.empty());
    CHECK_FALSE(key.allowed.empty());
  }
  CHECK_FALSE(reference.data.train.empty());
  CHECK_FALSE(reference.data.validation.empty());

  Config plain = reference;
  plain.data.train.clear();
  plain.data.validation.clear();
  CHECK(to_json(plain) == to_json(Config{}));
}

TEST_CASE("reference.yaml names the allowed values of every choice") {
  const std::string text = read_file(std::string(SUBRING_SOURCE_DIR) + "/configs/reference.yaml");
  for (const KeyInfo& key : known_keys()) {
    const std::string prefix = "one of ";
    if (key.allowed.rfind(prefix, 0) != 0) continue;
    std::istringstream names(key.allowed.substr(prefix.size()));
    const std::string name = key.path.substr(key.path.rfind('.') + 1) + ":";
    // The key's own lines: from its name to the next line that gives a key.
    size_t start = text.find("  " + name);
    if (start == std::string::npos) start = text.find("\n" + name);
    REQUIRE(start != std::string::npos);
    size_t end = text.find('\n', start + 1);
    while (end != std::string::npos && text.compare(end + 1, 20, std::string(20, ' ')) == 0) {
      end = text.find('\n', end + 1);
    }
    for (std::string value; std::getline(names >> std::ws, value, ',');) {
      INFO(key.path << " " << value);
      CHECK(text.substr(start, end - start).find(value) != std::string::npos);
    }
  }
}

TEST_CASE("values of every type arrive") {
  const Config c = load_text(R"(
model: {hidden_size: +64, rope_theta: 1e4, tie_word_embeddings: true}
data:
  train: shards/*.bin
  validation: "*.bin"
optimizer:
  betas: [0, 0.999]
training: {seed: 9223372036854775807}
parallelism: {load_balancer: zigzag, chunks: 8, context_parallel_degree: 4}
compression:
  codec: none
  unplug_at_step: never
  rotation:
    kind: "taylor2"
    source: previous_chunk
wire: {timeout_seconds: 0.5, transport: local}
backend: cpu
threads: 3
)");
  CHECK(c.model.hidden_size == 64);
  CHECK(c.model.rope_theta == 1e4);
  CHECK(c.model.tie_word_embeddings);
  CHECK(c.data.train == "shards/*.bin");
  CHECK(c.data.validation == "*.bin");
  CHECK(c.optimizer.betas[0] == 0.0);
  CHECK(c.optimizer.betas[1] == 0.999);
  CHECK(c.training.seed == 9223372036854775807u);
  CHECK(c.parallelism.load_balancer == mesh::LoadBalancer::zigzag);
  CHECK(c.parallelism.chunks == 8);
  CHECK(c.parallelism.context_parallel_degree == 4);
  CHECK(c.compression.codec == codec::Codec::none);
  CHECK(c.compression.unplug_at_step == -1);
  CHECK(c.compression.rotation.kind == codec::RotationKind::taylor2);
  CHECK(c.compression.rotation.source == codec::RotationSource::previous_chunk);
  CHECK(c.wire.timeout_seconds == 0.5);
  CHECK(c.wire.transport == wire::TransportKind::local);
  CHECK(c.backend.backend == BackendKind::cpu);
  CHECK(c.backend.threads == 3);
  // What is not given keeps its default.
  CHECK(c.training.steps == Config{}.training.steps);
}

TEST_CASE("words stand for automatic values") {
  const Config c = load_text(kMinimal +
                             "threads: auto\n"
                             "parallelism: {chunks: auto, context_parallel_degree: auto}\n");
  CHECK(c.backend.threads == 0);
  CHECK(c.parallelism.chunks == 0);
  CHECK(c.parallelism.context_parallel_degree == 0);
  CHECK(load_text(kMinimal + "threads: 0\n").backend.threads == 0);
}

TEST_CASE("files with comments, CRLF, a document marker or JSON are fine") {
  CHECK(load_text("---\ndata:  # note\n  # note\n  train: x\n").data.train == "x");
  CHECK(load_text("data:\r\n  train: x\r\ntraining:\r\n  steps: 7\r\n").training.steps == 7);
  CHECK(load_text("data: {train: x}\n\t# a tab before a comment\n").data.train == "x");
  CHECK(load_text(R"({"data":{"train":"x"},"threads":2})").backend.threads == 2);
  CHECK(load_text("\xEF\xBB\xBF" + kMinimal).data.train == "x.bin");
  CHECK(load_text(kMinimal + "...\n").data.train == "x.bin");
}

TEST_CASE("to_json is a configuration of the same run") {
  Config c = load_text(kMinimal,
                       {"training.steps=123",
                        "optimizer.lr=1.2345678901234567e-3",
                        "compression.rotation.kind=none",
                        "compression.wire_dtype=int4",
                        "compression.unplug_at_step=120",
                        "data.validation=a \"b\" \\ c: #d",
                        "optimizer.betas=[0.5, 0.25]",
                        "threads=2"});
  const std::string json = to_json(c);
  INFO(json);
  CHECK(json.find('\n') == std::string::npos);
  const Config again = load_text(json);
  CHECK(to_json(again) == json);
  CHECK(again.optimizer.lr == c.optimizer.lr);
  CHECK(again.data.validation == c.data.validation);
  // Every key is in it.
  CHECK(again.places.size() == known_keys().size());
}

TEST_CASE("overrides replace values, the last one wins") {
  const Config c = load_text(kMinimal + "training: {steps: 5}\n",
                             {"training.steps=6",
                              "training.steps=7",
                              "data.train=dir/*.bin # all",
                              "data.validation=",
                              "optimizer.betas=[0.8,0.9]",
                              "compression.rotation={kind: none}",
                              "backend=cpu"});
  CHECK(c.training.steps == 7);
  CHECK(c.data.train == "dir/*.bin # all");
  CHECK(c.data.validation.empty());
  CHECK(c.optimizer.betas[0] == 0.8);
  CHECK(c.compression.rotation.kind == codec::RotationKind::none);
  CHECK(c.backend.backend == BackendKind::cpu);
  CHECK(c.places.at("training.steps") == "--set");
}

TEST_CASE("the configurations that documents name are valid on 4 ranks") {
  const std::string directory = std::string(SUBRING_SOURCE_DIR) + "/configs/";
  const std::string name = GENERATE("demo.yaml", "long.yaml");
  const Config config = load_config(directory + name, {});
  CHECK_NOTHROW(check_config_for_ranks(config, 4));
  CHECK(config_warnings(config).empty());
}

}  // namespace subring::config
