#pragma once

#include <string_view>

namespace subring::report {

// The files of src/report/page, and Chart.js: texts that page/embed.cmake puts into the program.
extern const std::string_view kPageHtml;    ///< with {{name}} where something is filled in
extern const std::string_view kPageCss;     ///< style of the page
extern const std::string_view kPageScript;  ///< draws tables and plots from the page's data
extern const std::string_view kChartJs;

}  // namespace subring::report
