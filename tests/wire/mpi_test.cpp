#include "subring/wire/mpi.hpp"

#include <cstdlib>
#include <map>

#include "support/catch.hpp"

using namespace subring;
using namespace subring::wire;

namespace {

/// Sets the launchers' variables to `values` and no others, until it goes.
class LauncherEnvironment {
 public:
  explicit LauncherEnvironment(const std::map<std::string, std::string>& values) {
    for (const char* name : kNames) {
      if (const char* value = std::getenv(name)) saved_[name] = value;
      unsetenv(name);
    }
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  ~LauncherEnvironment() {
    for (const char* name : kNames) unsetenv(name);
    for (const auto& [name, value] : saved_) setenv(name.c_str(), value.c_str(), 1);
  }

 private:
  static constexpr const char* kNames[] = {"OMPI_COMM_WORLD_SIZE",
                                           "PMIX_RANK",
                                           "PMI_RANK",
                                           "PMI_ID",
                                           "MV2_COMM_WORLD_SIZE",
                                           "SLURM_PROCID",
                                           "SLURM_STEP_NUM_TASKS"};
  std::map<std::string, std::string> saved_;
};

bool launched_with(const std::map<std::string, std::string>& values) {
  const LauncherEnvironment environment(values);
  return launched_by_mpi();
}

}  // namespace

TEST_CASE("the environment tells a rank from a plain process") {
  REQUIRE_FALSE(launched_with({}));
  REQUIRE(launched_with({{"OMPI_COMM_WORLD_SIZE", "1"}}));
  REQUIRE(launched_with({{"PMIX_RANK", "0"}}));
  REQUIRE(launched_with({{"PMI_RANK", "3"}}));
  REQUIRE(launched_with({{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}));
  // The script of sbatch, and the shell of salloc as a step.
  REQUIRE_FALSE(launched_with({{"SLURM_PROCID", "0"}}));
  REQUIRE_FALSE(launched_with({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
}

TEST_CASE("a build says whether it has MPI") {
  REQUIRE(mpi_version().empty() == !mpi_available());
  REQUIRE(mpi_version().find_first_of(",\n") == std::string::npos);
  if (!mpi_available()) {
    REQUIRE_THROWS_WITH(connect_mpi(std::chrono::seconds(1)), "this build of subring has no MPI");
  }
}
