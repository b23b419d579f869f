#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "commands.hpp"
#include "subring/core/error.hpp"
#include "subring/report/html_report.hpp"
#include "subring/report/run_summary.hpp"

namespace subring::app {
namespace {

struct ReportArguments {
  std::vector<std::string> directories;
  std::string out;
  std::string title;
  std::string notes;
  std::string plot;
};

std::string read_notes(const std::string& path) {
  std::ifstream file(path);
  std::string text(std::istreambuf_iterator<char>(file), {});
  SUBRING_CHECK(!file.bad() && file.is_open() && (file.eof() || !text.empty()),
                ErrorKind::data,
                "--notes: {}: cannot be read",
                path);
  return text;
}

void print_table(const std::vector<report::RunLog>& runs) {
  std::vector<report::RunSummary> summaries;
  for (const report::RunLog& run : runs) summaries.push_back(report::summarize(run));
  std::fputs(report::summary_table(summaries).c_str(), stdout);
}

void report_runs(const ReportArguments& arguments) {
  report::PageOptions options;
  if (!arguments.title.empty()) options.title = arguments.title;
  if (!arguments.notes.empty()) options.notes = read_notes(arguments.notes);
  if (!arguments.plot.empty()) options.plot = *parse_enum<report::ExtraPlot>(arguments.plot);
  const std::vector<report::RunLog> runs = report::read_runs(arguments.directories);
  if (arguments.out.empty()) {
    print_table(runs);
  } else {
    report::write_html_report(arguments.out, runs, options);
  }
}

}  // namespace

void add_report_command(CLI::App& program) {
  CLI::App* command = program.add_subcommand(
      "report", "Compare runs: a table on stdout, or with --out a page with plots");
  auto arguments = std::make_shared<ReportArguments>();
  command
      ->add_option("RUN_DIR",
                   arguments->directories,
                   "directories with metrics.jsonl; the first is what the others are compared with")
      ->required();
  CLI::Option* out = command->add_option(
      "--out", arguments->out, "write one self-contained HTML file (docs/report.md)");
  command->add_option("--title", arguments->title, "heading of the page")->needs(out);
  command
      ->add_option("--notes",
                   arguments->notes,
                   "file of plain text for the head of the page: paragraphs, lists of lines that "
                   "begin with \"- \", indented code")
      ->needs(out);
  command->add_option("--plot", arguments->plot, "a plot more: frontier (loss against bytes)")
      ->needs(out)
      ->check(CLI::IsMember({"none", "frontier"}));
  command->callback([arguments] { report_runs(*arguments); });
}

}  // namespace subring::app
