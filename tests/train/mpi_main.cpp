// One rank of the MPI tests of the trainer; started by mpirun (see mpi_tests.cmake). Rank 0 then
// trains the same alone and compares.

#include <cmath>
#include <iostream>

#include "subring/wire/mpi.hpp"
#include "train/tiny_run.hpp"

using namespace subring;
using namespace subring::test;

namespace {

void compare(const config::Config& config, wire::Transport& transport, std::string_view what) {
  const RunResult result = run_steps(config, transport, 10);
  if (transport.rank() != 0) return;
  const RunResult expected = run_steps(config, 1, 10);
  for (size_t i = 0; i < expected.steps.size(); ++i) {
    const double loss = expected.steps[i].loss;
    SUBRING_CHECK(std::abs(result.steps[i].loss - loss) < 1e-5 * loss,
                  ErrorKind::shape,
                  "{}: loss {} instead of {} in step {}",
                  what,
                  result.steps[i].loss,
                  loss,
                  i + 1);
  }
  const double gradients = relative_distance(result.gradients, expected.gradients);
  const double weights = relative_distance(result.weights, expected.weights);
  SUBRING_CHECK(gradients < 1e-4 && weights < 1e-4,
                ErrorKind::shape,
                "{}: gradients differ by {}, weights by {}",
                what,
                gradients,
                weights);
}

}  // namespace

int main() {
  const auto transport = wire::connect_mpi(std::chrono::seconds(60));
  try {
    const TinyData data;  // each rank writes its own, all the same
    config::Config config = tiny_config(data);
    config.parallelism.chunks = 8;
    compare(config, *transport, "subspace, contiguous");
    config.parallelism.load_balancer = mesh::LoadBalancer::zigzag;
    config.compression.rotation.source = codec::RotationSource::previous_chunk;
    config.model.num_key_value_heads = 2;
    compare(config, *transport, "subspace, zigzag, previous chunk, grouped-query");
    config.compression.codec = codec::Codec::none;
    compare(config, *transport, "none, zigzag");
  } catch (const std::exception& error) {
    std::cerr << "rank " << transport->rank() << ": " << error.what() << std::endl;
    transport->abort(error.what(), 1);
  }
  return 0;
}
