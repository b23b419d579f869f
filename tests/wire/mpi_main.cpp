// One rank of the MPI tests of the wire layer; started by mpirun (see mpi_tests.cmake).
//   wire_mpi_tests good             all good bodies, one after the other
//   wire_mpi_tests shaped           the same and more over emulated links
//   wire_mpi_tests BAD_BODY         one of bad_bodies(); the job is to fail
//   wire_mpi_tests shaped_BAD_BODY  the same over emulated links
//   wire_mpi_tests killed|stopped   rank 1 sends itself that signal; the job is to fail
//   wire_mpi_tests unwound          rank 1 throws past its endpoint and exits without abort()
//   wire_mpi_tests large            one message of more than 2^31 bytes (needs 2 x 2 GiB)

#include <csignal>
#include <cstdio>
#include <iostream>

#include "subring/wire/group.hpp"
#include "subring/wire/mpi.hpp"
#include "wire/transport_bodies.hpp"

using namespace subring;
using namespace subring::wire;

namespace {

void signal_second_rank(Transport& transport, int signal_number, double timeout_seconds) {
  Group group{&transport, {}, transport.rank(), std::chrono::duration<double>(timeout_seconds)};
  for (int rank = 0; rank < transport.size(); ++rank) group.ranks.push_back(rank);
  barrier(group);
  if (transport.rank() == 1) std::raise(signal_number);
  barrier(group);
}

void send_large(Transport& transport) {
  std::vector<std::byte> bytes((size_t{1} << 31) + 3);
  const Envelope envelope{1 - transport.rank(), 0, TrafficKind::other, "large block"};
  std::unique_ptr<Transfer> transfer;
  if (transport.rank() == 0) {
    bytes.front() = std::byte{1};
    bytes.back() = std::byte{2};
    transfer = transport.send(envelope, bytes);
  } else {
    transfer = transport.receive(envelope, bytes);
  }
  wait(*transfer, envelope, transport, std::chrono::seconds(60));
  SUBRING_CHECK(bytes.front() == std::byte{1} && bytes.back() == std::byte{2},
                ErrorKind::shape,
                "the ends of the large block are wrong");
}

void run_all(const std::vector<TransportBody>& bodies, Transport& transport) {
  for (const TransportBody& body : bodies) {
    try {
      body.run(transport);
    } catch (const Error& error) {
      throw Error(error.kind(), error.what(), body.name);
    }
  }
}

void run(Transport& transport, const std::string& what) {
  if (what == "good") {
    bool refused = false;
    try {
      connect_mpi(std::chrono::seconds(60));
    } catch (const Error& error) {
      refused = error.kind() == ErrorKind::wire;
    }
    SUBRING_CHECK(refused, ErrorKind::shape, "expected: MPI is initialised once a process");
    SUBRING_CHECK(transport.num_local_ranks() == transport.size(),
                  ErrorKind::shape,
                  "expected: all ranks on this host");
    return run_all(good_bodies(), transport);
  }
  if (what == "shaped") return run_all(shaped_bodies(), transport);
  // The others' deadline is far away when only the launcher can notice.
  if (what == "killed") return signal_second_rank(transport, SIGKILL, 600.0);
  if (what == "stopped") return signal_second_rank(transport, SIGSTOP, kShortTimeoutSeconds);
  if (what == "large") return send_large(transport);
  for (const TransportBody& body : bad_bodies()) {
    if (body.name == what) return body.run(transport);
    if ("shaped_" + body.name == what) {
      return shaped(body, {.latency_seconds = 1e-3}).run(transport);
    }
  }
  throw Error(ErrorKind::config, "no such test", what);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "good";
  try {
    if (!launched_by_mpi()) throw Error(ErrorKind::config, "to be started by mpirun");
    const auto transport = connect_mpi(std::chrono::seconds(60));
    if (what == "unwound") {
      for (const TransportBody& body : bad_bodies()) {
        if (body.name == "throws") body.run(*transport);
      }
    }
    try {
      run(*transport, what);
    } catch (const std::exception& error) {
      std::cerr << "rank " << transport->rank() << ": " << error.what() << std::endl;
      transport->abort(error.what(), 1);
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
  return 0;
}
