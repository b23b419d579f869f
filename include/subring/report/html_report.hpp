#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "subring/core/enum_names.hpp"
#include "subring/report/run_log.hpp"

namespace subring::report {

/// A plot that is not on every page.
enum class ExtraPlot {
  none,
  frontier,  ///< validation loss against bytes of a step, one point a run
};
constexpr EnumNames<ExtraPlot, 2> enum_names(ExtraPlot) {
  return {{{ExtraPlot::none, "none"}, {ExtraPlot::frontier, "frontier"}}};
}

struct PageOptions {
  std::string title = "Training runs";
  std::string notes;  ///< plain text in paragraphs; "- " begins an item, indented lines are code
  ExtraPlot plot = ExtraPlot::none;
};

/// One HTML page on these runs, the first of which the others are compared with: tables, and plots
/// by Chart.js. Self-contained: it loads nothing. Curves have at most kMaxPoints points; of longer
/// runs each point is the mean of some steps (of the gradient norm their largest).
std::string html_report(const std::vector<RunLog>& runs, const PageOptions& options);

/// Most points of a curve.
constexpr size_t kMaxPoints = 2000;

/// Writes html_report(), whole or not at all.
/// @throws Error{config}  `path` cannot be created
/// @throws Error{io}      it cannot be written (disk full)
void write_html_report(const std::filesystem::path& path,
                       const std::vector<RunLog>& runs,
                       const PageOptions& options);

}  // namespace subring::report
