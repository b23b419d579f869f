#include "subring/core/threads.hpp"

#include <atomic>
#include <stdexcept>

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
