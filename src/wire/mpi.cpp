#include "subring/wire/mpi.hpp"

#include <cstdlib>

#ifdef SUBRING_HAS_MPI
// Without the C++ bindings of old, which need a library of their own.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>
#endif

namespace subring::wire {

namespace {

int int_of_environment(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

bool launched_by_mpi() {
  // Open MPI's mpirun; PMIx launchers; Hydra (MPICH, Intel MPI) and Slurm's PMI; MVAPICH.
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_ID", "MV2_COMM_WORLD_SIZE"}) {
    if (std::getenv(name) != nullptr) return true;
  }
  // srun without a PMI plugin. In the shell of an allocation SLURM_PROCID may be set too, but the
  // step, if it is one, has one task.
  return std::getenv("SLURM_PROCID") != nullptr && int_of_environment("SLURM_STEP_NUM_TASKS") > 1;
}

#ifdef SUBRING_HAS_MPI

namespace {

/// The one macro of this foreign API: Error{wire} with MPI's own words unless `call` succeeded.
#define SUBRING_MPI(call) check_mpi((call), #call)

std::string mpi_message(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  return {text, static_cast<size_t>(length)};
}

void check_mpi(int code, std::string_view call) {
  SUBRING_CHECK(code == MPI_SUCCESS,
                ErrorKind::wire,
                "MPI: {} ({})",
                mpi_message(code),
                call.substr(0, call.find('(')));
}

/// A message of this many bytes or more is described to MPI as blocks and a rest, because its count
/// is an int. Far below INT_MAX, so that tests of ordinary size take this path too.
constexpr size_t kBlockBytes = size_t{16} << 20;

/// MPI's description of `num_bytes` contiguous bytes, in one message whatever their number.
class MessageType {
 public:
  explicit MessageType(size_t num_bytes) {
    if (num_bytes < kBlockBytes) {
      count_ = static_cast<int>(num_bytes);
      return;
    }
    const size_t num_blocks = num_bytes / kBlockBytes;
    MPI_Datatype block = MPI_DATATYPE_NULL;
    SUBRING_MPI(MPI_Type_contiguous(static_cast<int>(kBlockBytes), MPI_BYTE, &block));
    const int lengths[2] = {static_cast<int>(num_blocks),
                            static_cast<int>(num_bytes % kBlockBytes)};
    const MPI_Aint offsets[2] = {0, static_cast<MPI_Aint>(num_blocks * kBlockBytes)};
    const MPI_Datatype types[2] = {block, MPI_BYTE};
    SUBRING_MPI(MPI_Type_create_struct(2, lengths, offsets, types, &derived_));
    SUBRING_MPI(MPI_Type_commit(&derived_));
    SUBRING_MPI(MPI_Type_free(&block));
  }
  // A pending operation keeps its type alive (MPI-3.1, 4.1.9).
  ~MessageType() {
    if (derived_ != MPI_DATATYPE_NULL) MPI_Type_free(&derived_);
  }
  MessageType(const MessageType&) = delete;
  MessageType& operator=(const MessageType&) = delete;

  int count() const { return count_; }
  MPI_Datatype type() const { return derived_ == MPI_DATATYPE_NULL ? MPI_BYTE : derived_; }

 private:
  int count_ = 1;
  MPI_Datatype derived_ = MPI_DATATYPE_NULL;
};

/// What the endpoint and its transfers share.
struct Connection {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0;
  int size = 0;
  bool failed = false;  // an MPI call failed, or a message had another length
};

enum class Direction { send, receive };

class MpiTransfer : public Transfer {
 public:
  MpiTransfer(Connection& connection,
              Direction direction,
              const Envelope& envelope,
              std::byte* data,
              size_t num_bytes)
      : connection_(connection), direction_(direction), envelope_(envelope), num_bytes_(num_bytes) {
    const MessageType message(num_bytes);
    const int code = direction == Direction::send ? MPI_Isend(data,
                                                              message.count(),
                                                              message.type(),
                                                              envelope.peer,
                                                              envelope.tag,
                                                              connection.comm,
                                                              &request_)
                                                  : MPI_Irecv(data,
                                                              message.count(),
                                                              message.type(),
                                                              envelope.peer,
                                                              envelope.tag,
                                                              connection.comm,
                                                              &request_);
    if (code != MPI_SUCCESS) fail(mpi_message(code));
  }

  ~MpiTransfer() override {
    if (request_ == MPI_REQUEST_NULL) return;
    // A receive that is given up must not write into a buffer that is about to go.
    if (direction_ == Direction::receive) MPI_Cancel(&request_);
    MPI_Request_free(&request_);
  }

  bool test() override {
    if (done_) return true;
    int finished = 0;
    MPI_Status status;
    const int code = MPI_Test(&request_, &finished, &status);
    if (code != MPI_SUCCESS) {
      int error_class = 0;
      MPI_Error_class(code, &error_class);
      fail(error_class == MPI_ERR_TRUNCATE ? "the message is longer" : mpi_message(code));
    }
    if (finished == 0) return false;
    if (direction_ == Direction::receive) check_length(status);
    done_ = true;
    return true;
  }

  /// Polls: first giving way to others, then sleeping, so that ranks can share cores. (MPI's own
  /// wait would spin.)
  bool wait_for(std::chrono::microseconds patience) override {
    using Clock = std::chrono::steady_clock;
    constexpr int kYields = 50;
    constexpr std::chrono::microseconds kLongestSleep{100};
    const Clock::time_point deadline = Clock::now() + patience;
    std::chrono::microseconds sleep{10};
    for (int round = 0; !test(); ++round) {
      if (Clock::now() >= deadline) return false;
      if (round < kYields) {
        sched_yield();
        continue;
      }
      std::this_thread::sleep_for(sleep);
      sleep = std::min(2 * sleep, kLongestSleep);
    }
    return true;
  }

 private:
  void check_length(const MPI_Status& status) {
    MPI_Count received = 0;  // MPI_Get_count would not see a part of a derived type
    SUBRING_MPI(MPI_Get_elements_x(&status, MPI_BYTE, &received));
    if (received != static_cast<MPI_Count>(num_bytes_)) {
      fail(fmt::format("the message has {} bytes", received));
    }
  }

  [[noreturn]] void fail(std::string_view reason) {
    connection_.failed = true;
    const bool sending = direction_ == Direction::send;
    throw Error(ErrorKind::wire,
                fmt::format("rank {} {} rank {} ({}, tag {}, {} bytes{}): {}",
                            connection_.rank,
                            sending ? "sends to" : "receives from",
                            envelope_.peer,
                            envelope_.what,
                            envelope_.tag,
                            num_bytes_,
                            sending ? "" : " expected",
                            reason));
  }

  Connection& connection_;
  Direction direction_;
  Envelope envelope_;
  size_t num_bytes_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  bool done_ = false;
};

/// Ends the process when a call into MPI that meets all ranks takes longer than it may. While it
/// lives, so does one sleeping thread.
class Watchdog {
 public:
  Watchdog(std::chrono::duration<double> timeout, const char* what)
      : thread_([this, timeout, what] {
          std::unique_lock lock(mutex_);
          if (ended_.wait_for(lock, timeout, [this] { return over_; })) return;
          fmt::print(stderr,
                     "subring: after {:.1f} s other ranks have not come to {}; is each of them "
                     "running, and can they reach this host?\n",
                     timeout.count(),
                     what);
          std::fflush(stderr);
          std::_Exit(1);
        }) {}
  ~Watchdog() {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;  // guarded by mutex_
  std::thread thread_;
};

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(std::chrono::duration<double> timeout) : timeout_(timeout) {
    const Watchdog watchdog(timeout_, "the start (MPI_Init)");
    int provided = 0;
    SUBRING_MPI(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    SUBRING_CHECK(provided >= MPI_THREAD_FUNNELED,
                  ErrorKind::wire,
                  "this MPI does not support threads (MPI_THREAD_FUNNELED)");
    SUBRING_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &connection_.comm));
    SUBRING_MPI(MPI_Comm_set_errhandler(connection_.comm, MPI_ERRORS_RETURN));
    SUBRING_MPI(MPI_Comm_rank(connection_.comm, &connection_.rank));
    SUBRING_MPI(MPI_Comm_size(connection_.comm, &connection_.size));
    MPI_Comm host = MPI_COMM_NULL;
    SUBRING_MPI(MPI_Comm_split_type(
        connection_.comm, MPI_COMM_TYPE_SHARED, connection_.rank, MPI_INFO_NULL, &host));
    SUBRING_MPI(MPI_Comm_size(host, &num_local_ranks_));
    SUBRING_MPI(MPI_Comm_free(&host));
  }

  ~MpiTransport() override {
    if (connection_.failed || std::uncaught_exceptions() > exceptions_at_start_) return;
    const Watchdog watchdog(timeout_, "the end (MPI_Finalize)");
    MPI_Comm_free(&connection_.comm);
    MPI_Finalize();
  }

  int rank() const override { return connection_.rank; }
  int size() const override { return connection_.size; }
  int num_local_ranks() const override { return num_local_ranks_; }

  std::unique_ptr<Transfer> send(const Envelope& to, std::span<const std::byte> bytes) override {
    // MPI takes a pointer to non-const for both directions here; a send does not write.
    return post(Direction::send, to, const_cast<std::byte*>(bytes.data()), bytes.size());
  }

  std::unique_ptr<Transfer> receive(const Envelope& from, std::span<std::byte> bytes) override {
    return post(Direction::receive, from, bytes.data(), bytes.size());
  }

  void abort(std::string_view, int exit_code) noexcept override {
    MPI_Abort(connection_.comm, exit_code);
    std::_Exit(exit_code);  // MPI promises a best attempt only
  }

 private:
  std::unique_ptr<Transfer> post(Direction direction,
                                 const Envelope& envelope,
                                 std::byte* data,
                                 size_t num_bytes) {
    SUBRING_CHECK(envelope.peer >= 0 && envelope.peer < size(),
                  ErrorKind::wire,
                  "rank {} has no peer {} among {} ranks ({})",
                  rank(),
                  envelope.peer,
                  size(),
                  envelope.what);
    return std::make_unique<MpiTransfer>(connection_, direction, envelope, data, num_bytes);
  }

  std::chrono::duration<double> timeout_;
  Connection connection_;
  int num_local_ranks_ = 1;
  int exceptions_at_start_ = std::uncaught_exceptions();
};

}  // namespace

bool mpi_available() { return true; }

std::string mpi_version() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown MPI";
  const std::string whole(text, static_cast<size_t>(length));
  // Open MPI goes on with ", package: ...", MPICH with lines of build options.
  std::string name = whole.substr(0, whole.find_first_of(",\n"));
  std::replace(name.begin(), name.end(), '\t', ' ');
  return name;
}

std::unique_ptr<Transport> connect_mpi(std::chrono::duration<double> timeout) {
  int initialised = 0;
  MPI_Initialized(&initialised);
  SUBRING_CHECK(initialised == 0, ErrorKind::wire, "MPI can be initialised once a process only");
  return std::make_unique<MpiTransport>(timeout);
}

#else

bool mpi_available() { return false; }

std::string mpi_version() { return {}; }

std::unique_ptr<Transport> connect_mpi(std::chrono::duration<double>) {
  throw Error(ErrorKind::wire, "this build of subring has no MPI");
}

#endif

}  // namespace subring::wire
