#include "wire/transport_bodies.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>

#include "subring/core/random.hpp"
#include "subring/wire/group.hpp"
#include "subring/wire/metered.hpp"
#include "subring/wire/shaped.hpp"

using namespace subring;
using namespace subring::wire;

namespace {

void expect(bool condition, std::string_view what) {
  SUBRING_CHECK(condition, ErrorKind::shape, "expected: {}", what);
}

Group world_of(Transport& transport, double timeout_seconds = 60.0) {
  Group group{&transport, {}, transport.rank(), std::chrono::duration<double>(timeout_seconds)};
  group.ranks.resize(static_cast<size_t>(transport.size()));
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  return group;
}

/// Bytes that depend on who sends which message.
std::vector<std::byte> payload(int source, int message, size_t num_bytes) {
  Random random(derive_seed(7, static_cast<uint64_t>(source), static_cast<uint64_t>(message)));
  std::vector<std::byte> bytes(num_bytes);
  for (size_t i = 0; i < num_bytes; i += sizeof(uint64_t)) {
    const uint64_t bits = random.next_bits();
    std::memcpy(bytes.data() + i, &bits, std::min(sizeof(bits), num_bytes - i));
  }
  return bytes;
}

/// Each rank sends messages of many sizes round the ring, all posted at once.
void exchange_sizes(Transport& transport) {
  const Group group = world_of(transport);
  const Envelope to{group.neighbour(1), 3, TrafficKind::kv_forward, "block"};
  const Envelope from{group.neighbour(-1), 3, TrafficKind::kv_forward, "block"};
  // The last is longer than the part from which the MPI transport describes a message by blocks.
  const std::vector<size_t> sizes{1, 0, 17, 4096, 1 << 20, (16 << 20) + 5, 0, 3};
  std::vector<std::vector<std::byte>> sent;
  std::vector<std::vector<std::byte>> received;
  for (size_t i = 0; i < sizes.size(); ++i) {
    sent.push_back(payload(transport.rank(), static_cast<int>(i), sizes[i]));
    received.emplace_back(sizes[i]);
  }
  std::vector<std::unique_ptr<Transfer>> transfers;
  for (auto& bytes : received) transfers.push_back(transport.receive(from, bytes));
  for (auto& bytes : sent) transfers.push_back(transport.send(to, bytes));
  for (auto& transfer : transfers) wait(*transfer, from, transport, group.timeout);
  for (auto& transfer : transfers) expect(transfer->test(), "a transfer that is done stays done");
  for (size_t i = 0; i < sizes.size(); ++i) {
    expect(received[i] == payload(from.peer, static_cast<int>(i), sizes[i]), "the sender's bytes");
  }
}

/// Messages match by tag, and by order within a tag, whatever the order of posting over tags.
void match_by_tag(Transport& transport) {
  const Group group = world_of(transport);
  std::array<std::array<int, 3>, 2> sent{};
  std::array<std::array<int, 3>, 2> received{};
  std::vector<std::unique_ptr<Transfer>> transfers;
  const Envelope any{group.neighbour(-1), 0, TrafficKind::other, "number"};
  for (int tag : {0, 1}) {
    for (int i = 0; i < 3; ++i) {
      int& value = sent[static_cast<size_t>(tag)][static_cast<size_t>(i)];
      value = 100 * transport.rank() + 10 * tag + i;
      transfers.push_back(transport.send({group.neighbour(1), tag, TrafficKind::other, "number"},
                                         std::as_bytes(std::span(&value, 1))));
    }
  }
  for (int tag : {1, 0}) {
    for (int i = 0; i < 3; ++i) {
      int& value = received[static_cast<size_t>(tag)][static_cast<size_t>(i)];
      transfers.push_back(
          transport.receive({group.neighbour(-1), tag, TrafficKind::other, "number"},
                            std::as_writable_bytes(std::span(&value, 1))));
    }
  }
  for (auto& transfer : transfers) wait(*transfer, any, transport, group.timeout);
  for (int tag : {0, 1}) {
    for (int i = 0; i < 3; ++i) {
      expect(received[static_cast<size_t>(tag)][static_cast<size_t>(i)] ==
                 100 * group.neighbour(-1) + 10 * tag + i,
             "the i-th message of the tag");
    }
  }
}

/// Every size around the number of ranks, and one of several pieces; bytes as documented.
template <typename T>
void reduce_sums(Transport& inner) {
  MeteredTransport transport(inner);
  const Group group = world_of(transport);
  const int m = group.size();
  for (const size_t n : {0, 1, 2, 3, m - 1, m, m + 1, 1000, (5 << 19) + 1}) {
    std::vector<T> values(n);
    for (size_t i = 0; i < n; ++i) {
      values[i] = static_cast<T>((i % 1000 + 1) * static_cast<size_t>(group.index + 1));
    }
    transport.reset();
    all_reduce_sum(group, values, TrafficKind::weights);
    // Small integers: every partial sum is exact, in any order.
    const auto ranks_sum = static_cast<size_t>(m * (m + 1) / 2);
    for (size_t i = 0; i < n; ++i) {
      expect(values[i] == static_cast<T>((i % 1000 + 1) * ranks_sum), "the sum over ranks");
    }
    const auto segment_length = [&](int index) {
      const size_t s = static_cast<size_t>(index % m);
      return (s + 1) * n / static_cast<size_t>(m) - s * n / static_cast<size_t>(m);
    };
    const size_t elements =
        m == 1 ? 0 : 2 * n - segment_length(group.index + 1) - segment_length(group.index + 2);
    const TrafficBytes& sent = transport.sent_bytes();
    expect(sent[static_cast<size_t>(TrafficKind::weights)] ==
               static_cast<int64_t>(elements * sizeof(T)),
           "as many bytes as documented");
    expect(sent[static_cast<size_t>(TrafficKind::other)] == 0, "no other bytes");
  }
}

/// Sums that round differently in each order: still the same bits everywhere.
void reduce_same_bits(Transport& transport) {
  const Group group = world_of(transport);
  Random random(derive_seed(11, static_cast<uint64_t>(group.index)));
  std::vector<float> values(1003);
  for (float& value : values) value = static_cast<float>(random.normal() * 1e3);
  all_reduce_sum(group, values, TrafficKind::weights);
  std::vector<float> of_first = values;
  broadcast(group, 0, std::as_writable_bytes(std::span(of_first)), TrafficKind::other);
  const auto mine = std::as_bytes(std::span(values));
  const auto theirs = std::as_bytes(std::span(of_first));
  expect(std::equal(mine.begin(), mine.end(), theirs.begin()), "the bits of rank 0");
}

void broadcast_from_each(Transport& inner) {
  MeteredTransport transport(inner);
  const Group group = world_of(transport);
  for (int root = 0; root < group.size(); ++root) {
    for (const size_t num_bytes : {0, 5, (9 << 20) + 1}) {
      auto bytes = payload(group.index, 0, num_bytes);
      transport.reset();
      broadcast(group, root, bytes, TrafficKind::weights);
      expect(bytes == payload(root, 0, num_bytes), "the root's bytes");
      const bool last = (group.index + 1) % group.size() == root;
      expect(transport.sent_bytes()[static_cast<size_t>(TrafficKind::weights)] ==
                 (last ? 0 : static_cast<int64_t>(num_bytes)),
             "each but the last of the chain sends the bytes once");
    }
  }
}

/// Texts of different lengths, an empty one among them.
void gather_texts(Transport& transport) {
  const Group group = world_of(transport);
  const auto text_of = [](int index) {
    return std::string(static_cast<size_t>(1000 * index), static_cast<char>('a' + index));
  };
  const auto texts = gather_to_first(group, text_of(group.index), TrafficKind::other);
  expect(texts.size() == static_cast<size_t>(group.index == 0 ? group.size() : 0), "all texts");
  for (size_t i = 0; i < texts.size(); ++i) {
    expect(texts[i] == text_of(static_cast<int>(i)), "texts in order");
  }
}

/// No rank leaves a barrier before the last has come.
void barrier_holds(Transport& transport) {
  const Group group = world_of(transport);
  using Clock = std::chrono::steady_clock;
  for (int late = 0; late < group.size(); ++late) {
    barrier(group);
    const auto start = Clock::now();
    if (group.index == late) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    // The late rank's clock says when it came; on one host steady clocks agree.
    int64_t arrival = (Clock::now() - Clock::time_point{}).count();
    transport.take_wait_seconds();
    barrier(group);
    const int64_t departure = (Clock::now() - Clock::time_point{}).count();
    const double waited = transport.take_wait_seconds();
    expect(waited >= 0 && waited <= std::chrono::duration<double>(Clock::now() - start).count(),
           "waiting within the time that passed");
    broadcast(group, late, std::as_writable_bytes(std::span(&arrival, 1)), TrafficKind::other);
    expect(departure >= arrival, "departure after the last arrival");
  }
}

/// Two groups at once: even and odd ranks, with a group of one where the count is odd.
void disjoint_groups(Transport& transport) {
  Group group{&transport, {}, transport.rank() / 2, std::chrono::seconds(60)};
  double expected = 0;
  for (int rank = transport.rank() % 2; rank < transport.size(); rank += 2) {
    group.ranks.push_back(rank);
    expected += rank + 1;
  }
  std::vector<double> values{transport.rank() + 1.0};
  all_reduce_sum(group, values, TrafficKind::other);
  expect(values[0] == expected, "the sum over the own group only");
  barrier(world_of(transport));
}

void lengths_differ(Transport& transport, size_t sent_bytes, size_t expected_bytes) {
  const Group group = world_of(transport, kShortTimeoutSeconds);
  barrier(group);
  std::vector<std::byte> bytes(std::max(sent_bytes, expected_bytes));
  std::unique_ptr<Transfer> transfer;
  Envelope envelope{1 - std::min(transport.rank(), 1), 5, TrafficKind::other, "odd block"};
  if (transport.rank() == 1) {
    transfer = transport.send(envelope, std::span(bytes).first(sent_bytes));
  } else if (transport.rank() == 0) {
    transfer = transport.receive(envelope, std::span(bytes).first(expected_bytes));
  }
  if (transfer) wait(*transfer, envelope, transport, group.timeout);
  barrier(group);
}

void never_sends(Transport& transport) {
  const Group group = world_of(transport, kShortTimeoutSeconds);
  barrier(group);
  if (transport.rank() == 1) {
    std::this_thread::sleep_for(std::chrono::duration<double>(2 * kShortTimeoutSeconds));
    return;
  }
  std::vector<std::byte> bytes(8);
  const Envelope from{1, 5, TrafficKind::other, "promised block"};
  const auto transfer = transport.receive(from, bytes);
  wait(*transfer, from, transport, group.timeout);
}

/// The others' own deadline is far away: only the abort can end their wait in time.
void throws(Transport& transport) {
  const Group group = world_of(transport, 600.0);
  barrier(group);
  SUBRING_CHECK(transport.rank() != 1, ErrorKind::non_finite, "loss is not finite in step 3");
  barrier(group);
}

/// Round the ring, computing nothing: no earlier than the links can carry it.
void takes_its_time(Transport& inner) {
  if (inner.size() == 1) return;
  NetworkOptions network;
  network.bandwidth = 100e6;
  network.latency_seconds = 0.02;
  network.ranks = {{.rank = 1, .up = 10e6}};
  ShapedTransport transport(inner, network, 1, std::chrono::seconds(60));
  const Group group = world_of(transport);
  const Envelope to{group.neighbour(1), 3, TrafficKind::kv_forward, "block"};
  const Envelope from{group.neighbour(-1), 3, TrafficKind::kv_forward, "block"};
  const auto sent = payload(transport.rank(), 0, 100'000);
  std::vector<std::byte> received(sent.size());
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  // From here on every rank sends after every rank's start.
  barrier(group);
  const auto receive = transport.receive(from, received);
  const auto send = transport.send(to, sent);
  wait(*send, to, transport, group.timeout);
  const double bits = 8 * static_cast<double>(sent.size());
  expect(seconds() >= bits / (transport.rank() == 1 ? 10e6 : 100e6), "the uplink's time");
  wait(*receive, from, transport, group.timeout);
  const double rate = from.peer == 1 ? 10e6 : 100e6;
  expect(seconds() >= bits / rate + network.latency_seconds, "the sender's time and a latency");
  expect(received == payload(from.peer, 0, received.size()), "the sender's bytes");
}

}  // namespace

TransportBody shaped(const TransportBody& body, const NetworkOptions& network) {
  return {"shaped " + body.name, [run = body.run, network](Transport& inner) {
            ShapedTransport transport(inner, network, 1, std::chrono::seconds(60));
            run(transport);
          }};
}

const std::vector<TransportBody>& shaped_bodies() {
  static const std::vector<TransportBody> bodies = [] {
    NetworkOptions network;
    network.bandwidth = 20e9;
    network.latency_seconds = 200e-6;
    network.jitter_seconds = 200e-6;
    std::vector<TransportBody> result{{"shaped times", takes_its_time}};
    for (const TransportBody& body : good_bodies()) result.push_back(shaped(body, network));
    return result;
  }();
  return bodies;
}

const std::vector<TransportBody>& good_bodies() {
  static const std::vector<TransportBody> bodies{
      {"exchange of many sizes", exchange_sizes},
      {"matching by tag", match_by_tag},
      {"all-reduce of floats", reduce_sums<float>},
      {"all-reduce of doubles", reduce_sums<double>},
      {"all-reduce to the same bits", reduce_same_bits},
      {"broadcast from each rank", broadcast_from_each},
      {"texts gathered", gather_texts},
      {"barrier", barrier_holds},
      {"disjoint groups", disjoint_groups},
  };
  return bodies;
}

const std::vector<TransportBody>& bad_bodies() {
  static const std::vector<TransportBody> bodies{
      {"never_sends", never_sends},
      {"throws", throws},
      {"too_long", [](Transport& t) { lengths_differ(t, 12, 8); }},
      {"too_short", [](Transport& t) { lengths_differ(t, 8, 12); }},
  };
  return bodies;
}
