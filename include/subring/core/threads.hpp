#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace subring {

/// Fixed set of worker threads of one rank. Idle workers sleep; they never spin, so that several
/// ranks can share a machine.
class ThreadPool {
 public:
  /// @param num_threads  >= 1, the caller included: 1 starts no thread
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(i) for every i in [0, num_tasks), each once, on the caller and the workers;
  /// returns when all have ended. Which thread runs which task is not fixed, so a task must write
  /// only what belongs to its index. The first exception is rethrown here.
  void parallel_for(int64_t num_tasks, const std::function<void(int64_t)>& task);

  /// Called on the thread that calls parallel_for, between its tasks, at most every kPollInterval:
  /// this is how transfers proceed while a rank computes (MPI moves nothing between its calls).
  /// What it throws, parallel_for throws. Empty: none. It must not call parallel_for.
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }
  static constexpr std::chrono::microseconds kPollInterval{500};

 private:
  enum class Caller { owner, worker };

  void work();
  void run_tasks(Caller caller);
  void poll_if_due();

  std::function<void()> poll_;
  std::chrono::steady_clock::time_point next_poll_;
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  const std::function<void(int64_t)>* task_ = nullptr;  // guarded by mutex_
  int64_t num_tasks_ = 0;                               // guarded by mutex_
  int64_t next_task_ = 0;                               // guarded by mutex_
  int64_t active_ = 0;                                  // guarded by mutex_
  std::exception_ptr failure_;                          // guarded by mutex_
  bool stopping_ = false;                               // guarded by mutex_
};

/// Cores this process may use (its affinity mask).
int available_cores();

}  // namespace subring
