#include "subring/wire/shaped.hpp"

#include <thread>

#include "subring/wire/local.hpp"
#include "support/catch.hpp"
#include "wire/transport_bodies.hpp"

using namespace subring;
using namespace subring::wire;

namespace {

/// Endpoints of a shaped group, all used by one thread once they are made, so that nothing depends
/// on who runs when.
class Endpoints {
 public:
  Endpoints(int num_ranks, const NetworkOptions& network) : hub_(num_ranks) {
    shaped_.resize(static_cast<size_t>(num_ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < num_ranks; ++rank) inner_.push_back(hub_.connect(rank));
    for (size_t rank = 0; rank < inner_.size(); ++rank) {
      threads.emplace_back([&, rank] {
        shaped_[rank] =
            std::make_unique<ShapedTransport>(*inner_[rank], network, 1, std::chrono::seconds(60));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  ShapedTransport& operator[](size_t rank) { return *shaped_[rank]; }
  Transport& inner(size_t rank) { return *inner_[rank]; }

 private:
  LocalHub hub_;
  std::vector<std::unique_ptr<Transport>> inner_;
  std::vector<std::unique_ptr<ShapedTransport>> shaped_;
};

Envelope envelope_to(int peer) { return {peer, 0, TrafficKind::other, "block"}; }

std::string failure_of(int num_ranks, const std::function<void(Transport&)>& body) {
  try {
    run_local_ranks(num_ranks, body);
  } catch (const Error& error) {
    return error.what();
  }
  return "(no failure)";
}

/// A transport of 4 ranks of which 2 are on this host; nothing else of it may be called.
class TwoHosts : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 4; }
  int num_local_ranks() const override { return 2; }
  std::unique_ptr<Transfer> send(const Envelope&, std::span<const std::byte>) override { abort(); }
  std::unique_ptr<Transfer> receive(const Envelope&, std::span<std::byte>) override { abort(); }
  void abort(std::string_view, int) noexcept override { std::abort(); }

 private:
  [[noreturn]] void abort() { std::abort(); }
};

}  // namespace

TEST_CASE("local ranks exchange, reduce, broadcast and meet over emulated links") {
  const int num_ranks = GENERATE(1, 2, 3, 4);
  for (const TransportBody& body : shaped_bodies()) {
    INFO(body.name << " on " << num_ranks << " ranks");
    REQUIRE_NOTHROW(run_local_ranks(num_ranks, body.run));
  }
}

TEST_CASE("an emulated transfer is under way until its time has come") {
  Endpoints ranks(2, {.bandwidth = 1e6});
  const std::vector<std::byte> sent(10'000'000, std::byte{7});  // 84 s
  std::vector<std::byte> received(sent.size());
  const auto receive = ranks[1].receive(envelope_to(0), received);
  const auto send = ranks[0].send(envelope_to(1), sent);
  for (const auto* transfer : {&send, &receive}) {
    REQUIRE_FALSE((*transfer)->test());
    REQUIRE_FALSE((*transfer)->wait_for(std::chrono::milliseconds(5)));
  }
  // Full duplex: the other direction is free.
  std::byte answer{3};
  std::byte room{};
  const auto back = ranks[1].send(envelope_to(0), std::span(&answer, 1));
  const auto home = ranks[0].receive(envelope_to(1), std::span(&room, 1));
  REQUIRE(back->wait_for(std::chrono::seconds(30)));
  REQUIRE(home->wait_for(std::chrono::seconds(30)));
  REQUIRE(room == answer);
}

TEST_CASE("an emulated transfer proceeds while nobody calls") {
  // 0.1 s on the link, 0.1 s of latency.
  Endpoints ranks(2, {.bandwidth = 8e6 / kGoodput, .latency_seconds = 0.1});
  const std::vector<std::byte> sent(100'000, std::byte{7});
  std::vector<std::byte> received(sent.size());
  const auto receive = ranks[1].receive(envelope_to(0), received);
  const auto send = ranks[0].send(envelope_to(1), sent);
  std::this_thread::sleep_for(std::chrono::milliseconds(201));
  REQUIRE(receive->test());
  REQUIRE(send->test());
  REQUIRE(received == sent);
}

TEST_CASE("a send is done before its message has arrived") {
  Endpoints ranks(2, {.latency_seconds = 60});
  std::byte sent{7};
  std::byte received{};
  const auto receive = ranks[1].receive(envelope_to(0), std::span(&received, 1));
  const auto send = ranks[0].send(envelope_to(1), std::span(&sent, 1));
  REQUIRE(send->wait_for(std::chrono::seconds(30)));
  REQUIRE_FALSE(receive->test());
}

TEST_CASE("messages of a rank to itself are not shaped") {
  Endpoints ranks(1, {.bandwidth = 1, .latency_seconds = 60});
  std::byte sent{7};
  std::byte received{};
  const auto receive = ranks[0].receive(envelope_to(0), std::span(&received, 1));
  const auto send = ranks[0].send(envelope_to(0), std::span(&sent, 1));
  REQUIRE(receive->test());
  REQUIRE(received == sent);
}

TEST_CASE("deadlines and failures come through emulated links") {
  const NetworkOptions network{.latency_seconds = 1e-3};
  for (const TransportBody& body : bad_bodies()) {
    INFO(body.name);
    const std::string plain = failure_of(2, body.run);
    REQUIRE(plain != "(no failure)");
    REQUIRE(failure_of(2, shaped(body, network).run) == plain);
  }
}

TEST_CASE("a rank that fails ends the waits for slow links") {
  const auto start = std::chrono::steady_clock::now();
  const std::string failure = failure_of(3, [](Transport& inner) {
    ShapedTransport transport(inner, {.latency_seconds = 600}, 1, std::chrono::seconds(1200));
    if (transport.rank() == 2) throw Error(ErrorKind::non_finite, "loss is not finite");
    const Envelope other{1 - transport.rank(), 0, TrafficKind::other, "block"};
    std::byte sent{};
    std::byte received{};
    const auto receive = transport.receive(other, std::span(&received, 1));
    const auto send = transport.send(other, std::span(&sent, 1));
    wait(*send, other, transport, std::chrono::seconds(1200));
    wait(*receive, other, transport, std::chrono::seconds(1200));
  });
  REQUIRE(failure == "loss is not finite");
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(60));
}

TEST_CASE("links between hosts are not emulated") {
  TwoHosts inner;
  REQUIRE_THROWS_WITH(ShapedTransport(inner, {.latency_seconds = 1}, 1, std::chrono::seconds(1)),
                      "network: links are emulated between ranks of one host, and only 2 of 4 "
                      "ranks are on this one; start all on one host, or leave network out");
}

TEST_CASE("a shaped peer outside the group is an error") {
  Endpoints ranks(2, {.latency_seconds = 1});
  REQUIRE_THROWS_AS(ranks[0].send(envelope_to(2), {}), Error);
  REQUIRE_THROWS_AS(ranks[0].receive(envelope_to(-1), {}), Error);
}
