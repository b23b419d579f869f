#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "subring/report/run_summary.hpp"

namespace subring::app {

void add_report_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand("report", "Compare runs: one line each on stdout");
  auto directories = std::make_shared<std::vector<std::string>>();
  command->add_option("RUN_DIR", *directories, "directories with metrics.jsonl")->required();
  command->callback([directories] {
    std::vector<report::RunSummary> runs;
    for (const std::string& directory : *directories) {
      runs.push_back(report::summarize_run(directory));
    }
    std::fputs(report::summary_table(runs).c_str(), stdout);
  });
}

}  // namespace subring::app
