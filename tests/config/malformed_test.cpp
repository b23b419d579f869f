#include <algorithm>
#include <chrono>
#include <filesystem>

#include "config/support.hpp"
#include "support/catch.hpp"

namespace subring::config {

namespace {

struct Case {
  std::string text;
  std::string start;  ///< of the message: place and key
  std::string part;   ///< somewhere after it
};

void check_one_line(const std::string& message) {
  CHECK(std::none_of(message.begin(), message.end(), [](unsigned char c) { return c < 0x20; }));
  CHECK(message.size() < 400);
}

void check_case(const Case& c, const std::string& message) {
  INFO(c.text << "\n-> " << message);
  CHECK(message.rfind(c.start, 0) == 0);
  CHECK(message.find(c.part, c.start.size()) != std::string::npos);
  check_one_line(message);
}

/// Each text, below a valid line 1, is refused with its message.
void check_refused(const std::vector<Case>& cases) {
  for (const Case& c : cases) check_case(c, error_of(kMinimal + c.text));
}

}  // namespace

TEST_CASE("unknown keys are refused, the nearest known one is suggested") {
  check_refused({
      {"modle: {hidden_size: 4}\n", "c.yaml:2: \"modle\": is no key; ", "did you mean model?"},
      {"model:\n  hiden_size: 4\n",
       "c.yaml:3: \"model.hiden_size\": ",
       "did you mean hidden_size?"},
      {"model:\n  hidden_sizes: 4\n", "c.yaml:3: ", "did you mean hidden_size?"},
      {"model:\n  steps: 4\n", "c.yaml:3: \"model.steps\": ", "did you mean training.steps?"},
      {"steps: 4\n", "c.yaml:2: \"steps\": ", "did you mean training.steps?"},
      {"compression:\n  rotation:\n    kidn: exact\n",
       "c.yaml:4: \"compression.rotation.kidn\": ",
       "did you mean kind?"},
      {"wire: {xyzzyx: 1}\n", "c.yaml:2: ", "known here: transport, timeout_seconds"},
      {"training.steps: 4\n", "c.yaml:2: \"training.steps\": is no key; ", "nested"},
      {"\"\": 4\n", "c.yaml:2: \"\": is no key; ", ""},
      {"training:\n  steps:\n    steps: 4\n", "c.yaml:3: training.steps: a section ", "integer"},
      {"Training: {steps: 4}\n", "c.yaml:2: \"Training\": ", "did you mean training?"},
  });
}

TEST_CASE("duplicate keys are refused at every depth") {
  check_refused({
      {"data: {train: y}\n", "c.yaml:2: data: is given twice, first in line 1; ", "keep one"},
      {"training:\n  steps: 4\n  seed: 1\n  steps: 4\n",
       "c.yaml:5: training.steps: is given twice, first in line 3; ",
       "keep one"},
      {"compression:\n  rotation: {kind: none,\n    kind: none}\n",
       "c.yaml:4: compression.rotation.kind: is given twice, first in line 3; ",
       "keep one"},
  });
}

TEST_CASE("values of another type are refused") {
  const std::string steps = "c.yaml:3: training.steps: ";
  check_refused({
      {"training:\n  steps: many\n", steps + "\"many\" is no integer; ", "an integer from 1 to"},
      {"training:\n  steps: 3.5\n", steps + "\"3.5\" is no integer; ", ""},
      {"training:\n  steps: 1e3\n", steps + "\"1e3\" is no integer; ", ""},
      {"training:\n  steps: 0x10\n", steps + "\"0x10\" is no integer; ", ""},
      {"training:\n  steps: \"10\"\n", steps + "\"10\" in quotes is text; ", ""},
      {"training:\n  steps: true\n", steps + "\"true\" is no integer; ", ""},
      {"training:\n  steps: nan\n", steps + "\"nan\" is no integer; ", ""},
      {"training:\n  steps: [5]\n", steps + "a list is no integer; ", ""},
      {"training:\n  steps:\n", steps + "nothing (null) is no integer; ", ""},
      {"training:\n  steps: ~\n", steps + "nothing (null) is no integer; ", ""},
      {"training:\n  steps: +-5\n", steps + "\"+-5\" is no integer; ", ""},
      {"training:\n  steps: 5 # five\n  seed: 1_000\n", "c.yaml:4: training.seed: ", "no integer"},
      {"optimizer: {lr: fast}\n", "c.yaml:2: optimizer.lr: \"fast\" is no number; ", "a number"},
      {"optimizer: {lr: 1e}\n", "c.yaml:2: optimizer.lr: ", "is no number"},
      {"optimizer: {lr: nan}\n", "c.yaml:2: optimizer.lr: ", "is not finite"},
      {"optimizer: {lr: .inf}\n", "c.yaml:2: optimizer.lr: ", "is no number"},
      {"optimizer: {lr: inf}\n", "c.yaml:2: optimizer.lr: ", "is not finite"},
      {"optimizer: {lr: 3e-4f}\n", "c.yaml:2: optimizer.lr: ", "is no number"},
      {"optimizer: {betas: 0.9}\n", "c.yaml:2: optimizer.betas: ", "is no list"},
      {"optimizer: {betas: [0.9]}\n", "c.yaml:2: optimizer.betas: a list of 1 values; ", "two"},
      {"optimizer: {betas: [0.9, x]}\n", "c.yaml:2: optimizer.betas: \"x\" is no number; ", ""},
      {"optimizer: {betas: [[0.9], 1]}\n", "c.yaml:2: optimizer.betas: a list is no number; ", ""},
      {"data2: 1\n", "c.yaml:2: \"data2\": ", "did you mean data?"},
      {"compression: {exact_local: yes}\n",
       "c.yaml:2: compression.exact_local: \"yes\" is no switch; ",
       "true or false"},
      {"compression: {exact_local: 1}\n", "c.yaml:2: compression.exact_local: ", "true or false"},
      {"compression: {exact_local: \"true\"}\n", "c.yaml:2: compression.exact_local: ", "quotes"},
      {"compression: {exact_local: True}\n", "c.yaml:2: compression.exact_local: ", "switch"},
  });
  check_case({"", "c.yaml:1: data.train: a list is no text; ", "a glob"},
             error_of("data: {train: [a, b]}\n"));
  check_case({"", "c.yaml:1: data.train: nothing (null) is no text; ", "a glob"},
             error_of("data: {train: }\n"));
}

TEST_CASE("values out of range and unknown names are refused") {
  check_refused({
      {"training: {steps: 0}\n", "c.yaml:2: training.steps: \"0\" is out of range; ", "from 1 to"},
      {"training: {steps: -1}\n", "c.yaml:2: training.steps: ", "out of range"},
      {"training: {seed: 18446744073709551616}\n", "c.yaml:2: training.seed: ", "2^63 - 1"},
      {"training: {seed: -1}\n", "c.yaml:2: training.seed: ", "out of range"},
      {"training: {max_norm: -0.1}\n", "c.yaml:2: training.max_norm: ", "from 0 up"},
      {"training: {max_norm: 1e999}\n", "c.yaml:2: training.max_norm: ", "out of range"},
      {"optimizer: {betas: [0.9, 1.0]}\n", "c.yaml:2: optimizer.betas: ", "to below 1"},
      {"optimizer: {eps: 0}\n", "c.yaml:2: optimizer.eps: ", "above 0"},
      {"model: {vocab_size: 2147483648}\n", "c.yaml:2: model.vocab_size: ", "out of range"},
      {"model: {num_attention_heads: 0}\n", "c.yaml:2: model.num_attention_heads: ", "range"},
      {"threads: -1\n", "c.yaml:2: threads: ", "or auto"},
      {"threads: automatic\n", "c.yaml:2: threads: ", "or auto"},
      {"wire: {timeout_seconds: 0}\n", "c.yaml:2: wire.timeout_seconds: ", "above 0"},
      {"compression: {unplug_at_step: 0}\n", "c.yaml:2: compression.unplug_at_step: ", "or never"},
      {"parallelism: {pipeline_parallel_degree: 2}\n",
       "c.yaml:2: parallelism.pipeline_parallel_degree: ",
       "from 1 to 1"},
      {"compression: {codec: zip}\n",
       "c.yaml:2: compression.codec: \"zip\" is not allowed; ",
       "one of none, subspace"},
      {"compression: {codec: None}\n", "c.yaml:2: compression.codec: ", "none, subspace"},
      {"compression: {wire_dtype: fp16}\n",
       "c.yaml:2: compression.wire_dtype: ",
       "fp32, bf16, int8, int4"},
      {"compression: {codec: [none]}\n", "c.yaml:2: compression.codec: a list is ", "not allowed"},
      {"compression: {codec: ~}\n", "c.yaml:2: compression.codec: nothing", "not allowed"},
      {"optimizer: {name: sgd}\n", "c.yaml:2: optimizer.name: \"sgd\" is not ", "adamw"},
      {"backend: cuda\n", "c.yaml:2: backend: \"cuda\" is not allowed; ", "auto, cpu"},
      {"compression: {codec: \"a\\nb\"}\n", "c.yaml:2: compression.codec: \"a\\nb\" is ", "not"},
      {"compression: {codec: " + std::string(5000, 'x') + "}\n", "c.yaml:2: ", "xxx...\" is not"},
  });
}

TEST_CASE("sections must be sections") {
  check_refused({
      {"model: small\n", "c.yaml:2: model: is a section", "key: value"},
      {"model: [1, 2]\n", "c.yaml:2: model: is a section", "key: value"},
      {"model:\n", "c.yaml:2: model: is an empty section; ", "leave it out"},
      {"compression:\n  rotation: exact\n", "c.yaml:3: compression.rotation: is a section", ""},
      {"backend: {threads: 2}\n", "c.yaml:2: backend: a section", "auto, cpu"},
  });
  check_case({"", "c.yaml:1: a configuration must be sections", ""}, error_of("- data\n- train\n"));
  check_case({"", "c.yaml:1: a configuration must be sections", ""}, error_of("hello\n"));
  check_case({"", "c.yaml: is empty; ", "reference.yaml"}, error_of(""));
  check_case({"", "c.yaml: is empty; ", "reference.yaml"}, error_of("# only a comment\n\n"));
  check_case({"", "c.yaml: is empty; ", "reference.yaml"}, error_of("---\n"));
}

TEST_CASE("broken YAML is refused with its line") {
  check_refused({
      {"training:\n\tsteps: 5\n", "c.yaml:3: a tab in the indentation; ", "spaces"},
      {"training:\n  \tsteps: 5\n", "c.yaml:3: a tab in the indentation; ", "spaces"},
      {"training: {steps: 5\n", "c.yaml:", "not valid YAML"},
      {"training: steps: 5\n", "c.yaml:2: not valid YAML", ""},
      {"training:\n  steps: 5\n seed: 1\n", "c.yaml:4: not valid YAML", ""},
      {"threads: \"2\n", "c.yaml:2: a quote that is not closed", ""},
      {"backend: 'cpu\nthreads: 2\n", "c.yaml:2: a quote that is not closed", ""},
      {"data2: \"a\\\"\n", "c.yaml:2: a quote that is not closed", ""},
      {"threads: 2\nnonsense\n", "c.yaml:3: \"nonsense\": is no key; ", ""},
      {"---\ntraining: {steps: 5}\n", "c.yaml:3: a second document", "one document"},
      {"training: &t {steps: 5}\n", "c.yaml:2: anchors", "not supported"},
      {"threads: &t 5\n", "c.yaml:2: anchors", "not supported"},
      {"threads: *t\n", "c.yaml:2: not valid YAML", "in quotes"},
      {"training: {<<: {steps: 5}}\n", "c.yaml:2: merge keys", "not supported"},
      {"threads: !!int 5\n", "c.yaml:2: the tag", "not supported"},
      {"? [a, b]\n: 5\n", "c.yaml:2: a list or section where", "name: value"},
      {"? {a: b}\n: 5\n", "c.yaml:2: a list or section where", "name: value"},
      {"~: 5\n", "c.yaml:2: a key without a name", "name: value"},
      {"training: {steps: [[[[[[[[[[1]]]]]]]]]]}\n", "c.yaml:2: nested more than 8", ""},
      {"training: @5\n", "c.yaml:2: not valid YAML", ""},
  });
  check_case({"", "c.yaml:2: not valid YAML", "in quotes"}, error_of("data:\n  train: *.bin\n"));
  check_case({"", "c.yaml: is binary; ", "UTF-8"}, error_of(kMinimal + std::string(3, '\0')));
}

TEST_CASE("a configuration is bounded in size, depth and time") {
  const auto start = std::chrono::steady_clock::now();
  check_case({"", "c.yaml: is larger than 1 MiB; ", ""}, error_of(std::string(2 << 20, '#')));
  const size_t many = 500'000;
  check_case({"", "c.yaml:1: ", "a bracket not closed?"}, error_of(std::string(many, '[')));
  check_case({"", "c.yaml:1: ", "a bracket not closed?"}, error_of(std::string(many, '{')));
  std::string deep;
  for (size_t i = 0; i < 900; ++i) deep.append(i, ' ').append("a:\n");
  check_case({"", "c.yaml:", "nested more than 8"}, error_of(deep));
  std::string bomb = "a: &a [x, x, x, x]\n";
  for (char c = 'b'; c < 'z'; ++c) {
    const char before = static_cast<char>(c - 1);
    bomb += fmt::format("{0}: &{0} [*{1}, *{1}, *{1}, *{1}]\n", c, before);
  }
  check_case({"", "c.yaml:1: anchors", ""}, error_of(bomb));
  const std::string long_key(many, 'k');
  check_case({"", "c.yaml:1: \"kkk", "is no key"}, error_of(fmt::format("? {}\n: 1\n", long_key)));
  std::string names;
  for (int i = 0; i < 60'000; ++i) names += fmt::format("k{}: 1\n", i);
  check_case({"", "c.yaml:1: \"k0\": is no key; ", ""}, error_of(names));
  // Seconds, not the hours that an expanded bomb takes; wide enough for sanitizers.
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("files that cannot be read are refused") {
  const auto error = [](const std::string& path) -> std::string {
    try {
      load_config(path, {});
    } catch (const Error& e) {
      CHECK(e.kind() == ErrorKind::config);
      check_one_line(e.what());
      return e.what();
    }
    return "(accepted)";
  };
  const std::string directory = std::filesystem::temp_directory_path().string();
  CHECK(error(directory).find("is a directory") != std::string::npos);
  CHECK(error("/nonexistent/c.yaml") ==
        "/nonexistent/c.yaml: cannot be read (No such file or directory); give a YAML file");
  CHECK(error("/nonexistent/a\nb.yaml").find("a\\nb.yaml: cannot be read") != std::string::npos);
  CHECK(error("").find("cannot be read") != std::string::npos);
  CHECK(error("/dev/zero").find("is binary") != std::string::npos);
}

TEST_CASE("overrides obey the same checks") {
  const std::vector<Case> cases = {
      {"training.steps", "--set: \"training.steps\": ", "--set key.path=value"},
      {"=5", "--set: \"=5\": ", "--set key.path=value"},
      {"", "--set: \"\": ", "--set key.path=value"},
      {"training.stps=5", "--set: \"training.stps\": is no key; ", "did you mean steps?"},
      {"trainng.steps=5", "--set: \"trainng.steps\": is no key; ", "did you mean training.steps?"},
      {"compression.rotation.knd=none", "--set: ", "did you mean kind?"},
      {"steps=5", "--set: \"steps\": is no key; ", "did you mean training.steps?"},
      {"training.=5", "--set: \"training.\": is no key; ", ""},
      {".=5", "--set: \".\": is no key; ", ""},
      {"training.steps=", "--set: training.steps: nothing (null) is no integer; ", ""},
      {"training.steps=x", "--set: training.steps: \"x\" is no integer; ", "an integer from"},
      {"training.steps=0", "--set: training.steps: \"0\" is out of range; ", ""},
      {"training.steps==5", "--set: training.steps: ", "is no integer"},
      {"training.steps=[", "--set training.steps:1: ", "bracket"},
      {"training=5", "--set: training: is a section", ""},
      {"training={steps: 5, steps: 5}", "--set: training.steps: is given twice; ", "keep one"},
      {"training={stps: 5}", "--set: \"training.stps\": is no key; ", "did you mean steps?"},
      {"compression.codec=zip", "--set: compression.codec: \"zip\" is not ", "none, subspace"},
      {"data.train=", "--set: data.train: is not given; ", "glob"},
      {"model.num_attention_heads=7", "--set: model.num_attention_heads: 7 heads do not ", ""},
  };
  for (const Case& c : cases) check_case(c, error_of(kMinimal, {c.text}));
}

}  // namespace subring::config
