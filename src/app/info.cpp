#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "subring/backend/backend.hpp"
#include "subring/core/threads.hpp"
#include "subring/wire/mpi.hpp"

namespace subring::app {

namespace {

/// Names of what this program is made of and runs on, in the order they are printed.
using Facts = std::vector<std::pair<std::string, std::string>>;

std::string compiler() {
#if defined(__clang__)
  return "Clang " __clang_version__;
#else
  return "GCC " __VERSION__;
#endif
}

std::string instruction_set_of_build() {
#if defined(__AVX512F__)
  return "AVX-512";
#elif defined(__AVX2__)
  return "AVX2";
#elif defined(__SSE2__)
  return "SSE2";
#elif defined(__ARM_NEON)
  return "NEON";
#else
  return "generic";
#endif
}

std::string processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown";
}

Facts collect_facts() {
  Facts facts;
  facts.emplace_back("version", SUBRING_VERSION);
  facts.emplace_back("build", SUBRING_BUILD_TYPE);
  facts.emplace_back("compiler", compiler());
  facts.emplace_back("baseline",
                     instruction_set_of_build() + "; kernels choose theirs at run time");
  const std::unique_ptr<Backend> backend = make_backend(BackendOptions{}, 1);
  // The backend itself says which matrix library and instruction set it uses.
  facts.emplace_back(fmt::format("backend {}", backend->name()), backend->description());
  facts.emplace_back("mpi", wire::mpi_available() ? wire::mpi_version() : "not in this build");
  facts.emplace_back("processor", processor());
  facts.emplace_back(
      "cores",
      fmt::format("{} available of {}", available_cores(), std::thread::hardware_concurrency()));
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  facts.emplace_back("omp_wait_policy", policy == nullptr ? "not set" : policy);
  return facts;
}

void print_facts(const Facts& facts) {
  size_t width = 0;
  for (const auto& [name, value] : facts) width = std::max(width, name.size());
  for (const auto& [name, value] : facts) fmt::print("{:<{}}  {}\n", name, width, value);
}

void print_facts_as_json(const Facts& facts) {
  nlohmann::ordered_json json;
  for (const auto& [name, value] : facts) json[name] = value;
  fmt::print("{}\n", json.dump());
}

enum class Form { lines, json };

}  // namespace

void add_info_command(CLI::App& program) {
  CLI::App* command =
      program.add_subcommand("info", "Prints the version, backends, libraries and cores");
  auto form = std::make_shared<Form>(Form::lines);
  command->add_flag_callback(
      "--json", [form] { *form = Form::json; }, "Prints one JSON object instead of lines");
  command->callback([form] {
    const Facts facts = collect_facts();
    *form == Form::json ? print_facts_as_json(facts) : print_facts(facts);
  });
}

}  // namespace subring::app
