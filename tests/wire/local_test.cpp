#include "subring/wire/local.hpp"

#include <chrono>

#include "support/catch.hpp"
#include "wire/transport_bodies.hpp"

using namespace subring;
using namespace subring::wire;

namespace {

const TransportBody& bad_body(const std::string& name) {
  for (const TransportBody& body : bad_bodies()) {
    if (body.name == name) return body;
  }
  throw Error(ErrorKind::shape, "no such body", name);
}

struct Outcome {
  ErrorKind kind{};
  std::string message;
  double seconds = 0;
};

Outcome failure_of(int num_ranks, const std::string& body_name) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  try {
    run_local_ranks(num_ranks, bad_body(body_name).run);
  } catch (const Error& error) {
    return {
        error.kind(), error.what(), std::chrono::duration<double>(Clock::now() - start).count()};
  }
  FAIL("the group ended well");
  return {};
}

}  // namespace

TEST_CASE("local ranks exchange, reduce, broadcast and meet") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 8);
  for (const TransportBody& body : good_bodies()) {
    INFO(body.name << " on " << num_ranks << " ranks");
    REQUIRE_NOTHROW(run_local_ranks(num_ranks, body.run));
  }
}

TEST_CASE("a local rank waits no longer than its deadline, and names whom it waits for") {
  const int num_ranks = GENERATE(2, 4);
  const Outcome outcome = failure_of(num_ranks, "never_sends");
  REQUIRE(outcome.kind == ErrorKind::wire);
  REQUIRE(outcome.message.find("waited 2.0 s for rank 1") != std::string::npos);
  REQUIRE(outcome.message.find("promised block, tag 5") != std::string::npos);
  // The silent rank sleeps for twice the deadline before its thread can be joined.
  REQUIRE(outcome.seconds < 2 * kShortTimeoutSeconds + 2.0);
}

TEST_CASE("a local rank that throws ends the group, and its own error comes out") {
  const int num_ranks = GENERATE(2, 3, 8);
  const Outcome outcome = failure_of(num_ranks, "throws");
  REQUIRE(outcome.kind == ErrorKind::non_finite);
  REQUIRE(outcome.message == "loss is not finite in step 3");
  REQUIRE(outcome.seconds < 5.0);  // the others' deadline is 600 s
}

TEST_CASE("local messages of another length are errors") {
  for (const std::string name : {"too_long", "too_short"}) {
    const Outcome outcome = failure_of(3, name);
    REQUIRE(outcome.kind == ErrorKind::wire);
    const std::string lengths = name == "too_long" ? "rank 1 sent 12 bytes (odd block) to rank 0, "
                                                     "which expects 8 bytes (odd block) at tag 5"
                                                   : "rank 1 sent 8 bytes (odd block) to rank 0, "
                                                     "which expects 12 bytes (odd block) at tag 5";
    REQUIRE(outcome.message == lengths);
  }
}

TEST_CASE("after an abort every transfer of the others throws, naming the cause") {
  LocalHub hub(3);
  const auto first = hub.connect(0);
  const auto second = hub.connect(1);
  const auto third = hub.connect(2);
  std::vector<std::byte> bytes(4);
  const auto transfer = first->receive({1, 0, TrafficKind::other, "block"}, bytes);
  REQUIRE_FALSE(transfer->test());
  third->abort("out of memory", 1);
  second->abort("a later cause", 1);
  REQUIRE_THROWS_WITH(transfer->test(), "rank 2 failed: out of memory");
  REQUIRE_THROWS_WITH(transfer->wait_for(std::chrono::microseconds(10)),
                      "rank 2 failed: out of memory");
}

TEST_CASE("an abandoned local transfer leaves nothing behind") {
  LocalHub hub(2);
  const auto first = hub.connect(0);
  const auto second = hub.connect(1);
  const Envelope from{0, 0, TrafficKind::other, "block"};
  std::vector<std::byte> bytes(4);
  { const auto abandoned = second->receive(from, bytes); }
  const std::vector<std::byte> sent(4, std::byte{9});
  const auto send = first->send({1, 0, TrafficKind::other, "block"}, sent);
  REQUIRE_FALSE(send->test());  // its receiver is gone
  const auto receive = second->receive(from, bytes);
  REQUIRE(receive->test());
  REQUIRE(send->test());
  REQUIRE(bytes == sent);
}

TEST_CASE("a local peer outside the group is an error") {
  LocalHub hub(2);
  const auto transport = hub.connect(0);
  REQUIRE_THROWS_AS(transport->send({2, 0, TrafficKind::other, "block"}, {}), Error);
  REQUIRE_THROWS_AS(transport->receive({-1, 0, TrafficKind::other, "block"}, {}), Error);
  REQUIRE_THROWS_AS(hub.connect(2), Error);
  REQUIRE_THROWS_AS(LocalHub(0), Error);
}
