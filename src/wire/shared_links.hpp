#pragma once

#include <pthread.h>

#include <chrono>
#include <string>

#include "subring/wire/link_clock.hpp"

namespace subring::wire {

/// The state of an emulated network in memory that all ranks of this host share, be they threads or
/// processes, with the lock under which they take turns.
class SharedLinks {
 public:
  /// Makes new memory. @throws Error{wire}
  static SharedLinks create();
  /// Maps what another rank of this host has made. @throws Error{wire}
  static SharedLinks open(const std::string& name);
  SharedLinks(SharedLinks&& other) noexcept;
  SharedLinks& operator=(SharedLinks&&) = delete;
  ~SharedLinks();

  const std::string& name() const { return name_; }
  /// Takes the name away, once all ranks have opened it; the memory goes with its last user.
  void unlink();

  LinkState& state() const;

  /// Holds the lock; nobody holds it for longer than some microseconds.
  class Lock {
   public:
    /// @throws Error{wire}  a rank died or was stopped while it held the lock
    explicit Lock(const SharedLinks& links);
    ~Lock();
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    /// Seconds since the emulation started; the same for all ranks of the host (CLOCK_MONOTONIC).
    double now() const;

   private:
    pthread_mutex_t& mutex_;
    std::chrono::steady_clock::duration start_;
  };

 private:
  struct Memory;
  SharedLinks(std::string name, int flags);

  std::string name_;
  bool linked_ = false;
  Memory* memory_ = nullptr;
};

}  // namespace subring::wire
