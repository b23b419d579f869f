#include "subring/report/run_log.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "subring/core/error.hpp"

namespace subring::report {
namespace {

using nlohmann::json;

StepRecord parse_step(const json& line) {
  const json& bytes = line.at("bytes");
  return {.step = line.at("step"),
          .loss = line.at("loss"),
          .lr = line.at("lr"),
          .grad_norm = line.at("grad_norm"),
          .tokens = line.at("tokens"),
          .tokens_per_second = line.at("tokens_per_second"),
          .step_seconds = line.at("step_seconds"),
          .wait_seconds = line.at("wait_seconds"),
          .phase = line.at("phase"),
          .bytes = {.kv_forward = bytes.at("kv_forward"),
                    .kv_backward = bytes.at("kv_backward"),
                    .weights = bytes.at("weights"),
                    .other = bytes.at("other"),
                    .kv_uncompressed = bytes.at("kv_uncompressed")}};
}

SpectrumRecord parse_spectrum(const json& line) {
  return {.step = line.at("step"),
          .layer = line.at("layer"),
          .tensor = line.at("tensor"),
          .width = line.at("width"),
          .stable_rank = line.at("stable_rank"),
          .components_90 = line.at("components_90"),
          .components_95 = line.at("components_95"),
          .components_99 = line.at("components_99")};
}

/// {"a": {"b": 1}} as "a.b" -> "1".
void flatten(const json& value, const std::string& path, std::map<std::string, std::string>& out) {
  if (!value.is_object()) {
    out[path] = value.is_string() ? value.get<std::string>() : value.dump();
    return;
  }
  for (const auto& [key, child] : value.items()) {
    flatten(child, path.empty() ? key : path + "." + key, out);
  }
}

void parse_run(const json& run, RunLog& log) {
  for (const auto& [key, value] : run.items()) {
    flatten(value, key == "config" ? "" : key, log.settings);
  }
}

void parse_line(const json& line, RunLog& log) {
  if (line.contains("run")) {
    parse_run(line.at("run"), log);
  } else if (line.contains("val_loss")) {
    log.evals.push_back({.step = line.at("step"), .val_loss = line.at("val_loss")});
  } else if (line.contains("spectrum")) {
    log.spectra.push_back(parse_spectrum(line.at("spectrum")));
  } else {
    log.steps.push_back(parse_step(line));
  }
}

/// The last `count` parts of a path, with slashes between them.
std::string last_parts(const std::filesystem::path& path, size_t count) {
  std::vector<std::string> parts;
  for (const auto& part : path.relative_path()) parts.push_back(part.string());
  std::string name;
  for (size_t i = parts.size() - std::min(count, parts.size()); i < parts.size(); ++i) {
    name += (name.empty() ? "" : "/") + parts[i];
  }
  return name;
}

/// Absolute, without dots and without a slash at its end.
std::filesystem::path normal(const std::filesystem::path& directory) {
  const auto path = std::filesystem::absolute(directory).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

void tell_apart(std::vector<RunLog>& runs) {
  std::set<std::string> taken;
  for (RunLog& run : runs) {
    const auto path = normal(run.directory);
    const auto is_shared = [&](size_t num_parts) {
      const auto same = [&](const RunLog& other) {
        const auto other_path = normal(other.directory);
        return other_path != path && last_parts(other_path, num_parts) == run.name;
      };
      return std::any_of(runs.begin(), runs.end(), same);
    };
    const auto depth = static_cast<size_t>(std::distance(path.begin(), path.end()));
    size_t num_parts = 1;
    while (is_shared(num_parts) && num_parts < depth) run.name = last_parts(path, ++num_parts);
    const std::string name = run.name;
    for (int copy = 2; !taken.insert(run.name).second; ++copy) {
      run.name = fmt::format("{} ({})", name, copy);
    }
  }
}

}  // namespace

StepBytes& StepBytes::operator+=(const StepBytes& more) {
  kv_forward += more.kv_forward;
  kv_backward += more.kv_backward;
  weights += more.weights;
  other += more.other;
  kv_uncompressed += more.kv_uncompressed;
  return *this;
}

RunLog read_run(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / "metrics.jsonl";
  std::ifstream file(path);
  SUBRING_CHECK(file.good(),
                ErrorKind::data,
                "{}: cannot be read; a run's directory holds that file",
                path.string());
  RunLog log;
  log.directory = directory;
  log.name = normal(directory).filename().string();
  std::string text;
  for (int64_t number = 1; std::getline(file, text); ++number) {
    try {
      parse_line(json::parse(text), log);
    } catch (const json::exception& e) {
      if (file.eof()) break;  // the run is in the middle of writing it, or was cut off there
      throw Error(ErrorKind::data,
                  fmt::format("not a line of metrics ({})", e.what()),
                  fmt::format("{}:{}", path.string(), number));
    }
  }
  SUBRING_CHECK(!log.steps.empty(), ErrorKind::data, "{}: holds no training step", path.string());
  return log;
}

std::vector<RunLog> read_runs(std::span<const std::string> directories) {
  std::vector<RunLog> runs;
  for (const std::string& directory : directories) runs.push_back(read_run(directory));
  tell_apart(runs);
  return runs;
}

}  // namespace subring::report
