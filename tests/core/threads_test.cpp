#include "subring/core/threads.hpp"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "support/catch.hpp"

using subring::ThreadPool;

TEST_CASE("every task runs exactly once, for any number of threads") {
  const int num_threads = GENERATE(1, 2, 5);
  ThreadPool pool(num_threads);
  for (int round = 0; round < 50; ++round) {
    std::vector<std::atomic<int>> runs(17);
    pool.parallel_for(17, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
    for (auto& count : runs) REQUIRE(count == 1);
  }
}

TEST_CASE("a task's exception reaches the caller and the pool stays usable") {
  ThreadPool pool(3);
  REQUIRE_THROWS_AS(pool.parallel_for(8,
                                      [](int64_t i) {
                                        if (i == 3) throw std::runtime_error("x");
                                      }),
                    std::runtime_error);
  std::atomic<int> sum = 0;
  pool.parallel_for(4, [&](int64_t i) { sum += static_cast<int>(i); });
  REQUIRE(sum == 6);
}

TEST_CASE("the caller of a pool polls between its tasks, and no one else") {
  const int num_threads = GENERATE(1, 3);
  ThreadPool pool(num_threads);
  std::atomic<int> polls = 0, elsewhere = 0;
  const auto caller = std::this_thread::get_id();
  pool.set_poll([&] {
    ++polls;
    if (std::this_thread::get_id() != caller) ++elsewhere;
  });
  // Each task takes longer than the interval, so each of the caller's is followed by a poll.
  std::atomic<int> by_caller = 0;
  pool.parallel_for(30, [&](int64_t) {
    if (std::this_thread::get_id() == caller) ++by_caller;
    std::this_thread::sleep_for(2 * ThreadPool::kPollInterval);
  });
  REQUIRE(polls == by_caller);
  REQUIRE(polls > 0);
  REQUIRE(elsewhere == 0);

  SECTION("what it throws reaches the caller") {
    pool.set_poll([] { throw std::runtime_error("peer lost"); });
    const auto tasks = [&] {
      pool.parallel_for(
          30, [](int64_t) { std::this_thread::sleep_for(2 * ThreadPool::kPollInterval); });
    };
    REQUIRE_THROWS_WITH(tasks(), "peer lost");
  }
  SECTION("an empty one is none") {
    pool.set_poll({});
    pool.parallel_for(4, [](int64_t) {});
    REQUIRE(polls == by_caller);
  }
}
