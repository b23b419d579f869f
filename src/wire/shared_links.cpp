#include "shared_links.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "subring/core/error.hpp"

namespace subring::wire {

struct SharedLinks::Memory {
  pthread_mutex_t mutex;
  std::chrono::steady_clock::duration start;
  LinkState links;
};

namespace {

[[noreturn]] void fail(const std::string& what, int code) {
  throw Error(
      ErrorKind::wire,
      fmt::format("the emulated network {} ({}); its ranks share /dev/shm", what, strerror(code)));
}

// A process that is stopped with the lock in its hands must not hang the others for ever.
constexpr int kLockSeconds = 20;

}  // namespace

SharedLinks::SharedLinks(std::string name, int flags) : name_(std::move(name)) {
  const int file = shm_open(name_.c_str(), O_RDWR | flags, 0600);
  if (file < 0) fail(fmt::format("cannot open {}", name_), errno);
  linked_ = (flags & O_CREAT) != 0;
  void* memory = MAP_FAILED;
  // New memory is zero, and pages that are never touched take no room.
  if (!linked_ || ftruncate(file, sizeof(Memory)) == 0) {
    memory = mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  const int code = errno;
  close(file);
  if (memory == MAP_FAILED) {
    unlink();
    fail("gets no memory", code);
  }
  memory_ = static_cast<Memory*>(memory);
}

SharedLinks SharedLinks::create() {
  static std::atomic<int> count{0};
  SharedLinks links(fmt::format("/subring-{}-{}", getpid(), count++), O_CREAT | O_EXCL);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&links.memory_->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  links.memory_->start = std::chrono::steady_clock::now().time_since_epoch();
  return links;
}

SharedLinks SharedLinks::open(const std::string& name) { return SharedLinks(name, 0); }

SharedLinks::SharedLinks(SharedLinks&& other) noexcept
    : name_(std::move(other.name_)),
      linked_(std::exchange(other.linked_, false)),
      memory_(std::exchange(other.memory_, nullptr)) {}

SharedLinks::~SharedLinks() {
  unlink();
  if (memory_ != nullptr) munmap(memory_, sizeof(Memory));
}

void SharedLinks::unlink() {
  if (linked_) shm_unlink(name_.c_str());
  linked_ = false;
}

LinkState& SharedLinks::state() const { return memory_->links; }

SharedLinks::Lock::Lock(const SharedLinks& links)
    : mutex_(links.memory_->mutex), start_(links.memory_->start) {
  int code = pthread_mutex_trylock(&mutex_);
  if (code == EBUSY) {
    timespec deadline{};
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += kLockSeconds;
    code = pthread_mutex_timedlock(&mutex_, &deadline);
  }
  if (code == EOWNERDEAD) {
    // Not made consistent: every other rank fails as well.
    pthread_mutex_unlock(&mutex_);
    fail("lost a rank", code);
  }
  if (code != 0) fail("does not answer: a rank that holds it was stopped or lost", code);
}

SharedLinks::Lock::~Lock() { pthread_mutex_unlock(&mutex_); }

double SharedLinks::Lock::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch() - start_)
      .count();
}

}  // namespace subring::wire
