#include "subring/report/html_report.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "page_assets.hpp"
#include "subring/core/error.hpp"
#include "subring/data/staged_file.hpp"
#include "subring/report/run_summary.hpp"

namespace subring::report {
namespace {

using nlohmann::ordered_json;

/// To 6 digits, which is more than a plot shows, so that curves take half the bytes.
double rounded(double value) { return std::stod(fmt::format("{:.6g}", value)); }

/// Arrays of equal length by name, and running sums over the steps of a run.
class Series {
 public:
  /// One point for these steps, which stand for themselves or for their mean.
  void add(std::span<const StepRecord> steps) {
    const auto count = static_cast<double>(steps.size());
    double loss = 0, lr = 0, grad_norm = 0, seconds = 0, wait_seconds = 0;
    int64_t tokens = 0;
    StepBytes bytes;
    for (const StepRecord& step : steps) {
      loss += step.loss / count;
      lr += step.lr / count;
      grad_norm = std::max(grad_norm, step.grad_norm);
      seconds += step.step_seconds;
      wait_seconds += step.wait_seconds;
      tokens += step.tokens;
      bytes += step.bytes;
    }
    tokens_ += tokens;
    seconds_ += seconds;
    const auto rate = [&](double amount) { return seconds > 0 ? amount / seconds : 0; };
    json_["step"].push_back(steps.back().step);
    json_["tokens"].push_back(tokens_);
    json_["seconds"].push_back(rounded(seconds_));
    json_["loss"].push_back(rounded(loss));
    json_["lr"].push_back(rounded(lr));
    json_["grad_norm"].push_back(rounded(grad_norm));
    json_["tokens_per_second"].push_back(rounded(rate(static_cast<double>(tokens))));
    json_["wait_share"].push_back(rounded(rate(wait_seconds)));
    json_["kv"].push_back(rounded(static_cast<double>(bytes.kv()) / count));
    json_["all"].push_back(rounded(static_cast<double>(bytes.all()) / count));
  }

  ordered_json take() { return std::move(json_); }

 private:
  int64_t tokens_ = 0;
  double seconds_ = 0;
  ordered_json json_;
};

/// Steps of one point.
size_t stride_of(const RunLog& run) { return (run.steps.size() + kMaxPoints - 1) / kMaxPoints; }

ordered_json series_json(const RunLog& run) {
  Series series;
  const std::span<const StepRecord> steps = run.steps;
  const size_t stride = stride_of(run);
  for (size_t first = 0; first < steps.size(); first += stride) {
    series.add(steps.subspan(first, std::min(stride, steps.size() - first)));
  }
  return series.take();
}

/// Evaluations with the tokens and the training time that lie before them.
ordered_json evals_json(const RunLog& run) {
  ordered_json json = {{"step", ordered_json::array()},
                       {"tokens", ordered_json::array()},
                       {"seconds", ordered_json::array()},
                       {"val_loss", ordered_json::array()}};
  size_t next = 0;
  int64_t tokens = 0;
  double seconds = 0;
  for (const EvalRecord& eval : run.evals) {
    for (; next < run.steps.size() && run.steps[next].step <= eval.step; ++next) {
      tokens += run.steps[next].tokens;
      seconds += run.steps[next].step_seconds;
    }
    json["step"].push_back(eval.step);
    json["tokens"].push_back(tokens);
    json["seconds"].push_back(rounded(seconds));
    json["val_loss"].push_back(rounded(eval.val_loss));
  }
  return json;
}

/// Where each phase began: the steps done before it.
ordered_json phases_json(const RunLog& run) {
  ordered_json phases = ordered_json::array();
  std::string_view phase;
  for (const StepRecord& step : run.steps) {
    if (step.phase == phase) continue;
    phase = step.phase;
    phases.push_back({{"step", step.step - 1}, {"phase", step.phase}});
  }
  return phases;
}

ordered_json spectra_json(const RunLog& run) {
  ordered_json spectra = ordered_json::array();
  for (const SpectrumRecord& s : run.spectra) {
    spectra.push_back({{"step", s.step},
                       {"layer", s.layer},
                       {"tensor", s.tensor},
                       {"width", s.width},
                       {"stable_rank", rounded(s.stable_rank)},
                       {"components_90", s.components_90},
                       {"components_95", s.components_95},
                       {"components_99", s.components_99}});
  }
  return spectra;
}

/// A loss that is not there becomes null.
ordered_json summary_json(const RunSummary& summary) {
  const StepBytes& bytes = summary.bytes;
  return {{"codec", summary.codec},
          {"steps", summary.steps},
          {"train_loss", summary.train_loss},
          {"val_loss", summary.val_loss},
          {"tokens_per_second", summary.tokens_per_second},
          {"wait_share", summary.wait_share},
          {"kv_bytes", bytes.kv()},
          {"total_bytes", bytes.all()},
          {"compressed_step_bytes", summary.compressed_step_bytes},
          {"saved", summary.saved()},
          {"saved_in_last_phase", summary.saved_in_last_phase()},
          {"bytes",
           {{"kv_forward", bytes.kv_forward},
            {"kv_backward", bytes.kv_backward},
            {"weights", bytes.weights},
            {"other", bytes.other},
            {"kv_uncompressed", bytes.kv_uncompressed}}}};
}

std::string setting(const RunLog& run, const std::string& key) {
  const auto found = run.settings.find(key);
  return found == run.settings.end() ? "" : found->second;
}

ordered_json run_json(const RunLog& run) {
  const int64_t planned = std::atoll(setting(run, "training.steps").c_str());
  return {{"name", run.name},
          {"directory", run.directory.string()},
          {"planned_steps", planned},
          {"unfinished", run.steps.back().step < planned},
          {"summary", summary_json(summarize(run))},
          {"series", series_json(run)},
          {"evals", evals_json(run)},
          {"phases", phases_json(run)},
          {"spectra", spectra_json(run)}};
}

/// Settings in two lists: those that differ, with a value for each run ("" where it has none), and
/// the others.
void add_settings(const std::vector<RunLog>& runs, ordered_json& page) {
  std::set<std::string> keys;
  for (const RunLog& run : runs) {
    for (const auto& [key, value] : run.settings) keys.insert(key);
  }
  keys.erase("peak_flops");  // measured at each start, so never the same
  page["differences"] = ordered_json::array();
  page["common"] = ordered_json::array();
  for (const std::string& key : keys) {
    std::vector<std::string> values;
    for (const RunLog& run : runs) values.push_back(setting(run, key));
    const bool same = std::all_of(
        values.begin(), values.end(), [&](const std::string& v) { return v == values.front(); });
    if (same) {
      page["common"].push_back({{"key", key}, {"value", values.front()}});
    } else {
      page["differences"].push_back({{"key", key}, {"values", values}});
    }
  }
}

std::string stride_note(const std::vector<RunLog>& runs) {
  size_t stride = 1;
  for (const RunLog& run : runs) stride = std::max(stride, stride_of(run));
  if (stride == 1) return "Pale: every step; full: the mean of the 2 % of steps around it.";
  return fmt::format(
      "Pale: a point is the mean of up to {} steps; full: the mean of the 2 % of points around it.",
      stride);
}

ordered_json page_json(const std::vector<RunLog>& runs, const PageOptions& options) {
  ordered_json page = {{"notes", options.notes},
                       {"plot", to_string(options.plot)},
                       {"stride_note", stride_note(runs)},
                       {"runs", ordered_json::array()}};
  for (const RunLog& run : runs) page["runs"].push_back(run_json(run));
  add_settings(runs, page);
  return page;
}

/// JSON that may stand within a script element: no "<" begins or ends a tag or a comment there.
/// Bytes that are not UTF-8 (names of directories may hold any) are replaced.
std::string script_safe(const ordered_json& json) {
  const std::string text = json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) c == '<' ? safe += "\\u003c" : safe += c;
  return safe;
}

std::string html_escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&': escaped += "&amp;"; break;
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '"': escaped += "&quot;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

/// `page` with each {{name}} replaced; what is put in is not looked at again.
std::string fill_in(std::string_view page,
                    std::initializer_list<std::pair<std::string_view, std::string_view>> values) {
  std::string filled;
  while (true) {
    const size_t open = page.find("{{");
    filled += page.substr(0, open);
    if (open == std::string_view::npos) return filled;
    const size_t close = page.find("}}", open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    for (const auto& [key, value] : values) {
      if (key == name) filled += value;
    }
    page.remove_prefix(close + 2);
  }
}

}  // namespace

std::string html_report(const std::vector<RunLog>& runs, const PageOptions& options) {
  return fill_in(kPageHtml,
                 {{"title", html_escaped(options.title)},
                  {"css", kPageCss},
                  {"data", script_safe(page_json(runs, options))},
                  {"chart_js", kChartJs},
                  {"script", kPageScript}});
}

void write_html_report(const std::filesystem::path& path,
                       const std::vector<RunLog>& runs,
                       const PageOptions& options) {
  const std::string page = html_report(runs, options);
  std::unique_ptr<data::StagedFile> file;
  try {
    SUBRING_CHECK(!std::filesystem::is_directory(path),
                  ErrorKind::config,
                  "{}: is a directory; name a file",
                  path.string());
    file = std::make_unique<data::StagedFile>(path);
  } catch (const Error& e) {
    throw Error(ErrorKind::config, e.what(), "--out");
  }
  file->append(page.data(), page.size());
  file->sync();
  file->commit();
}

}  // namespace subring::report
