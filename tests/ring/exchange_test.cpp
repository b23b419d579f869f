#include "subring/ring/exchange.hpp"

#include <cstring>

#include "subring/wire/local.hpp"
#include "subring/wire/metered.hpp"
#include "support/catch.hpp"

using namespace subring;
using namespace subring::ring;

namespace {

/// Slots of one int each.
struct Slots {
  std::vector<int32_t> values;

  explicit Slots(int count) : values(static_cast<size_t>(count), -1) {}
  BlockSlots spans() {
    BlockSlots slots;
    for (int32_t& value : values) slots.push_back(std::as_writable_bytes(std::span(&value, 1)));
    return slots;
  }
};

int32_t read(std::span<const std::byte> bytes) {
  int32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

}  // namespace

TEST_CASE("blocks reach all who need them and the sum of their gradients comes home") {
  const int num_ranks = GENERATE(1, 2, 3, 4, 8);
  const bool zigzag = GENERATE(false, true);
  const int num_buffers = GENERATE(1, 2, 5);
  ChunkMap map{num_ranks, {}, 1};
  for (int rank = 0; rank < num_ranks; ++rank) map.owner.push_back(rank);
  if (zigzag) {
    for (int rank = num_ranks - 1; rank >= 0; --rank) map.owner.push_back(rank);
  }
  const int chunks = map.num_chunks();

  wire::run_local_ranks(num_ranks, [&](wire::Transport& inner) {
    wire::MeteredTransport transport(inner);
    wire::Group group{&transport, {}, transport.rank(), std::chrono::seconds(20)};
    for (int rank = 0; rank < num_ranks; ++rank) group.ranks.push_back(rank);
    RingExchange exchange(group, make_schedule(map, transport.rank()), 0);
    const std::vector<int> owned = map.chunks_of(transport.rank());

    Slots blocks(chunks);
    for (int chunk : owned) blocks.values[static_cast<size_t>(chunk)] = 100 + chunk;
    int visits = 0;
    const auto visit = [&](const Slots& slots, int base, int chunk) {
      ++visits;
      const int32_t value = slots.values[static_cast<size_t>(chunk)];
      SUBRING_CHECK(value == base + chunk, ErrorKind::shape, "chunk {} came as {}", chunk, value);
    };
    // The next layer's blocks set out while this layer's are still under way.
    RingExchange next(group, make_schedule(map, transport.rank()), 1);
    Slots next_blocks(chunks);
    transport.set_idle([&] { next.poll(); });
    exchange.start_forward(blocks.spans());
    next.start_forward(next_blocks.spans());
    for (int chunk : owned) exchange.send_forward(chunk);
    exchange.poll();
    for (int chunk : owned) {
      next_blocks.values[static_cast<size_t>(chunk)] = 200 + chunk;
      next.send_forward(chunk);
    }
    exchange.finish_forward([&](int chunk) { visit(blocks, 100, chunk); });
    next.finish_forward([&](int chunk) { visit(next_blocks, 200, chunk); });
    const auto sent = static_cast<int64_t>(blocks_sent(map)[static_cast<size_t>(group.index)]);
    SUBRING_CHECK(transport.sent_bytes()[0] == 2 * 4 * sent,
                  ErrorKind::shape,
                  "{} bytes forward",
                  transport.sent_bytes()[0]);

    // Each reader of a block adds 1 << its rank.
    Slots incoming(chunks), outgoing(chunks);
    int computed = 0;
    bool local = false;
    std::vector<int> share_in_buffer(static_cast<size_t>(num_buffers), -1);
    std::vector<int32_t> home(static_cast<size_t>(chunks), 0);
    exchange.start_backward(
        incoming.spans(),
        outgoing.spans(),
        {.num_buffers = num_buffers,
         .compute =
             [&](int chunk, int buffer) {
               ++computed;
               int& holds = share_in_buffer[static_cast<size_t>(buffer)];
               SUBRING_CHECK(holds < 0, ErrorKind::shape, "the share of {} is lost", holds);
               holds = chunk;
             },
         .contribute =
             [&](const RingExchange::Contribution& step) {
               int& holds = share_in_buffer[static_cast<size_t>(step.buffer)];
               SUBRING_CHECK(std::exchange(holds, -1) == step.chunk,
                             ErrorKind::shape,
                             "another chunk's share than {}",
                             step.chunk);
               const int32_t sum =
                   (step.incoming.empty() ? 0 : read(step.incoming)) + (1 << transport.rank());
               std::memcpy(step.outgoing.data(), &sum, sizeof sum);
             },
         .local = [&] { local = true; }});
    SUBRING_CHECK(local, ErrorKind::shape, "{}", "the own blocks were forgotten");
    for (int chunk : owned) {
      if (!exchange.leaves(chunk)) continue;
      exchange.wait_home(chunk);
      home[static_cast<size_t>(chunk)] = incoming.values[static_cast<size_t>(chunk)];
    }
    exchange.finish_backward();
    SUBRING_CHECK(
        2 * computed == visits, ErrorKind::shape, "{} gradients of {} blocks", computed, visits);
    SUBRING_CHECK(
        transport.sent_bytes()[1] == 4 *
                                         [&] {
                                           int64_t arrivals = 0;
                                           for (const Arrival& arrival :
                                                exchange.schedule().arrivals)
                                             arrivals += arrival.distance > 0;
                                           return arrivals;
                                         }(),
        ErrorKind::shape,
        "{} bytes backward",
        transport.sent_bytes()[1]);
    for (int chunk : owned) {
      int32_t expected = 0;
      for (int later = chunk + 1; later < chunks; ++later) {
        const int reader = map.owner[static_cast<size_t>(later)];
        if (reader != transport.rank()) expected |= 1 << reader;
      }
      SUBRING_CHECK(home[static_cast<size_t>(chunk)] == expected,
                    ErrorKind::shape,
                    "gradient of chunk {} is {:b}, not {:b}",
                    chunk,
                    home[static_cast<size_t>(chunk)],
                    expected);
    }
  });
  SUCCEED("no rank threw");
}
