#include "subring/wire/link_clock.hpp"

#include <algorithm>
#include <memory>

#include "subring/core/error.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::wire;

namespace {

/// Links of 1 payload byte a second, so that bytes are seconds.
constexpr double kUnit = 8 / kGoodput;

NetworkOptions network_of(double payload_bytes_per_second, double latency_seconds = 0) {
  NetworkOptions network;
  network.bandwidth = kUnit * payload_bytes_per_second;
  network.latency_seconds = latency_seconds;
  return network;
}

/// A link clock with its state, on 4 ranks, and messages by number.
class Net {
 public:
  explicit Net(const NetworkOptions& network, uint64_t seed = 1)
      : clock_(network, 4, seed, *state_) {}

  /// Returns the message's number.
  size_t send(double now, int source, int destination, size_t num_bytes) {
    keys_.push_back({source, destination, 0, static_cast<uint32_t>(keys_.size())});
    clock_.send(now, keys_.back(), num_bytes);
    return keys_.size() - 1;
  }
  double left(size_t message) { return clock_.find(keys_[message])->left_seconds; }
  double delivered(size_t message) { return clock_.find(keys_[message])->delivered_seconds; }
  LinkClock& clock() { return clock_; }
  const MessageKey& key(size_t message) const { return keys_[message]; }

 private:
  std::unique_ptr<LinkState> state_ = std::make_unique<LinkState>();
  LinkClock clock_;
  std::vector<MessageKey> keys_;
};

}  // namespace

TEST_CASE("a message takes its bytes over the rate, and arrives a latency later") {
  Net net(network_of(100, 0.5));
  const size_t message = net.send(2, 0, 1, 300);
  CHECK(net.clock().next_event() == Approx(5));
  net.clock().advance(4.9);
  CHECK(net.left(message) == kNotYet);
  CHECK(net.delivered(message) == kNotYet);
  // However late somebody looks.
  net.clock().advance(100);
  CHECK(net.left(message) == Approx(5));
  CHECK(net.delivered(message) == Approx(5.5));
  CHECK(net.clock().next_event() == kNotYet);
}

TEST_CASE("300 Mbps carry 0.95 of it as payload") {
  NetworkOptions network;
  network.bandwidth = 300e6;
  Net net(network);
  const size_t message = net.send(0, 0, 1, 3'000'000);
  net.clock().advance(1);
  CHECK(net.left(message) == Approx(3e6 * 8 / (300e6 * 0.95)));
}

TEST_CASE("messages of one flow follow one another, and a latency does not add up") {
  Net net(network_of(10, 5));
  const size_t first = net.send(0, 0, 1, 10);
  const size_t second = net.send(0, 0, 1, 20);
  const size_t third = net.send(0.5, 0, 1, 0);
  net.clock().advance(10);
  CHECK(net.delivered(first) == Approx(6));
  CHECK(net.delivered(second) == Approx(8));
  CHECK(net.delivered(third) == Approx(8));
}

TEST_CASE("two flows of one rank have half of its uplink each, and all of it when alone") {
  Net net(network_of(10));
  const size_t longer = net.send(0, 0, 1, 100);
  // From 2 on each has 5: the shorter needs 4 seconds, then 60 bytes of the longer are left.
  const size_t shorter = net.send(2, 0, 2, 20);
  net.clock().advance(100);
  CHECK(net.left(shorter) == Approx(6));
  CHECK(net.left(longer) == Approx(12));
}

TEST_CASE("two flows into one rank share its downlink") {
  Net net(network_of(10));
  const size_t a = net.send(0, 0, 2, 50);
  const size_t b = net.send(0, 1, 2, 50);
  net.clock().advance(100);
  CHECK(net.left(a) == Approx(10));
  CHECK(net.left(b) == Approx(10));
}

TEST_CASE("the directions of a link and links of other ranks are independent") {
  Net net(network_of(10));
  std::vector<size_t> messages;
  for (int rank = 0; rank < 4; ++rank) messages.push_back(net.send(0, rank, (rank + 1) % 4, 100));
  net.clock().advance(100);
  for (const size_t message : messages) CHECK(net.left(message) == Approx(10));
}

TEST_CASE("what a flow cannot use its neighbours get") {
  NetworkOptions network = network_of(12);
  network.ranks = {{.rank = 1, .down = 2 * kUnit}};
  Net net(network);
  const size_t slow = net.send(0, 0, 1, 20);   // bounded by rank 1's downlink: 2
  const size_t fast = net.send(0, 0, 2, 100);  // the rest of rank 0's uplink: 10
  net.clock().advance(100);
  CHECK(net.left(slow) == Approx(10));
  CHECK(net.left(fast) == Approx(10));
}

TEST_CASE("up and down of a rank are set apart") {
  NetworkOptions network = network_of(10);
  network.ranks = {{.rank = 2, .up = kUnit, .down = 5 * kUnit}};
  Net net(network);
  const size_t up = net.send(0, 2, 3, 10);
  const size_t down = net.send(0, 1, 2, 10);
  const size_t other = net.send(0, 0, 1, 10);
  net.clock().advance(100);
  CHECK(net.left(up) == Approx(10));
  CHECK(net.left(down) == Approx(2));
  CHECK(net.left(other) == Approx(1));
}

TEST_CASE("an override is for one direction of one link") {
  NetworkOptions network = network_of(10, 1);
  network.links = {{.from = 0, .to = 1, .bandwidth = 2 * kUnit, .latency_seconds = 3}};
  Net net(network);
  const size_t there = net.send(0, 0, 1, 20);
  const size_t back = net.send(0, 1, 0, 20);
  net.clock().advance(100);
  CHECK(net.delivered(there) == Approx(10 + 3));
  CHECK(net.delivered(back) == Approx(2 + 1));
}

TEST_CASE("without a bandwidth only latency counts") {
  NetworkOptions network;
  network.latency_seconds = 0.25;
  network.links = {{.from = 2, .to = 3, .bandwidth = 10 * kUnit}};
  Net net(network);
  const size_t message = net.send(1, 0, 1, 1 << 30);
  CHECK(net.left(message) == 1);
  CHECK(net.delivered(message) == 1.25);
  const size_t slow = net.send(1, 2, 3, 10);
  const size_t fast = net.send(1, 2, 1, 10);
  net.clock().advance(5);
  CHECK(net.left(slow) == Approx(2));
  CHECK(net.left(fast) == 1);
}

TEST_CASE("jitter is within its bounds, repeats with its seed and keeps the order of a pair") {
  NetworkOptions network = network_of(1000, 1);
  network.jitter_seconds = 0.5;
  const auto delays_of = [&](uint64_t seed) {
    Net net(network, seed);
    std::vector<double> delays;
    double last = 0;
    for (int i = 0; i < 200; ++i) net.send(0.01 * i, 0, 1, 1);
    net.clock().advance(100);
    for (size_t i = 0; i < 200; ++i) {
      CHECK(net.delivered(i) >= last);
      last = net.delivered(i);
      delays.push_back(net.delivered(i) - net.left(i));
      CHECK(delays.back() >= 1);
      CHECK(delays.back() < 1.5);
    }
    return delays;
  };
  const auto delays = delays_of(1);
  CHECK(delays == delays_of(1));
  CHECK(delays != delays_of(2));
  CHECK(*std::max_element(delays.begin(), delays.end()) > 1.4);
}

TEST_CASE("messages are removed once both sides are done") {
  Net net(network_of(10));
  const size_t first = net.send(0, 0, 1, 10);
  const size_t second = net.send(0, 0, 1, 10);
  net.clock().advance(1);
  net.clock().find(net.key(first))->sender_is_done = true;
  net.clock().remove_done();
  REQUIRE(net.clock().find(net.key(first)) != nullptr);
  net.clock().find(net.key(first))->receiver_is_done = true;
  net.clock().remove_done();
  CHECK(net.clock().find(net.key(first)) == nullptr);
  net.clock().advance(5);
  CHECK(net.left(second) == Approx(2));
}

TEST_CASE("all messages of many flows leave, and no link carries more than its rate") {
  NetworkOptions network = network_of(10, 0.1);
  network.ranks = {{.rank = 1, .up = 3 * kUnit}};
  network.links = {{.from = 3, .to = 0, .bandwidth = kUnit}};
  Net net(network);
  double bytes_up[4] = {};
  double bytes_down[4] = {};
  std::vector<size_t> messages;
  for (int i = 0; i < 300; ++i) {
    const int source = i * 7 % 4;
    const int destination = (source + 1 + i * 5 % 3) % 4;
    const auto num_bytes = static_cast<size_t>(i % 11);
    bytes_up[source] += static_cast<double>(num_bytes);
    bytes_down[destination] += static_cast<double>(num_bytes);
    messages.push_back(net.send(0.05 * i, source, destination, num_bytes));
  }
  net.clock().advance(1e6);
  double last_up[4] = {};
  double last_down[4] = {};
  for (const size_t message : messages) {
    const MessageKey& key = net.key(message);
    const double left = net.left(message);
    REQUIRE(left < 1e6);
    last_up[key.source] = std::max(last_up[key.source], left);
    last_down[key.destination] = std::max(last_down[key.destination], left);
  }
  for (int rank = 0; rank < 4; ++rank) {
    const double up = rank == 1 ? 3 : 10;
    CHECK(bytes_up[rank] <= up * last_up[rank] * (1 + 1e-9));
    CHECK(bytes_down[rank] <= 10 * last_down[rank] * (1 + 1e-9));
  }
}

TEST_CASE("an emulated network is bounded") {
  const auto state = std::make_unique<LinkState>();
  CHECK_THROWS_AS(LinkClock(network_of(1), kMaxShapedRanks + 1, 1, *state), Error);
  LinkClock clock(network_of(1), 2, 1, *state);
  state->num_messages = kMaxShapedMessages;
  state->next_event = kNotYet;
  CHECK_THROWS_AS(clock.send(0, {0, 1, 0, 0}, 1), Error);
}

TEST_CASE("an emulated network is described in a line") {
  CHECK(describe({}) == "as it is");
  NetworkOptions network;
  network.bandwidth = 300e6;
  network.latency_seconds = 0.02;
  CHECK(describe(network) == "300Mbps up and down, 20ms one way");
  network.jitter_seconds = 0.001;
  network.ranks = {{.rank = 2, .up = 30e6}};
  network.links = {{.from = 0, .to = 1, .bandwidth = 1e9, .latency_seconds = 0.1}};
  CHECK(describe(network) ==
        "300Mbps up and down, 20ms one way, jitter up to 1ms; rank 2: 30Mbps up; 0 to 1: 1Gbps "
        "100ms");
}
