#include "subring/core/threads.hpp"

#include <sched.h>

#include <utility>

namespace subring {

ThreadPool::ThreadPool(int num_threads) {
  for (int i = 1; i < num_threads; ++i) workers_.emplace_back([this] { work(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::parallel_for(int64_t num_tasks, const std::function<void(int64_t)>& task) {
  if (workers_.empty() || num_tasks <= 1) {
    for (int64_t i = 0; i < num_tasks; ++i) {
      task(i);
      poll_if_due();
    }
    return;
  }
  std::exception_ptr failure;
  {
    std::unique_lock lock(mutex_);
    task_ = &task;
    num_tasks_ = num_tasks;
    next_task_ = 0;
  }
  wake_.notify_all();
  run_tasks(Caller::owner);
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return active_ == 0; });
    task_ = nullptr;
    failure = std::exchange(failure_, nullptr);
  }
  if (failure) std::rethrow_exception(failure);
}

void ThreadPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || (task_ != nullptr && next_task_ < num_tasks_); });
    if (stopping_) return;
    lock.unlock();
    run_tasks(Caller::worker);
    lock.lock();
  }
}

void ThreadPool::poll_if_due() {
  if (!poll_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_poll_) return;
  poll_();
  next_poll_ = now + kPollInterval;
}

void ThreadPool::run_tasks(Caller caller) {
  std::unique_lock lock(mutex_);
  while (task_ != nullptr && next_task_ < num_tasks_) {
    const int64_t index = next_task_++;
    const auto* task = task_;
    ++active_;
    lock.unlock();
    std::exception_ptr failure;
    try {
      (*task)(index);
      if (caller == Caller::owner) poll_if_due();
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    --active_;
    if (failure) {
      if (!failure_) failure_ = failure;
      next_task_ = num_tasks_;
    }
    if (active_ == 0 && next_task_ >= num_tasks_) done_.notify_all();
  }
}

int available_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return 1;
  return CPU_COUNT(&cores);
}

}  // namespace subring
