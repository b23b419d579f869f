#pragma once

#include <CLI/CLI.hpp>

namespace subring::app {

/// Each adds one subcommand to the program; its callback does the work and throws subring::Error.
void add_train_command(CLI::App& program);
void add_tokenize_command(CLI::App& program);
void add_info_command(CLI::App& program);
void add_report_command(CLI::App& program);
void add_plan_command(CLI::App& program);

}  // namespace subring::app
