#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <vector>

#include "subring/wire/options.hpp"

namespace subring::wire {

/// Most ranks and messages under way of one emulated network; both bound its shared memory (about
/// 1.2 MB, of which only what is used is touched).
constexpr int kMaxShapedRanks = 64;
constexpr int kMaxShapedMessages = 1 << 14;

/// Payload's share of what a link carries: 1448 bytes of each 1514-byte Ethernet frame are TCP
/// payload (20 IP, 32 TCP with timestamps, 14 Ethernet), and acknowledgements take about half a
/// percent of the other direction (docs/network.md).
constexpr double kGoodput = 0.95;

/// Which message: the `index`-th from source to destination with this tag.
struct MessageKey {
  int source = 0;
  int destination = 0;
  int tag = 0;
  uint32_t index = 0;
  friend bool operator==(const MessageKey&, const MessageKey&) = default;
};

/// Times of the emulation are seconds since its start.
constexpr double kNotYet = std::numeric_limits<double>::infinity();

/// A message on its way.
struct LinkMessage {
  MessageKey key;
  double bytes_left = 0;               ///< that are still to enter the link
  double bytes_per_second = 0;         ///< at present; 0: waits for those before it
  double finish_seconds = kNotYet;     ///< when it will have left if nothing else changes
  double left_seconds = kNotYet;       ///< the sender's buffer is free; known from then on
  double delivered_seconds = kNotYet;  ///< the receiver has it; known from left_seconds on
  bool sender_is_done = false;
  bool receiver_is_done = false;
};

/// All that an emulated network remembers: plain data, so that ranks in several processes can share
/// it. Make it zeroed.
struct LinkState {
  struct Pair {
    double last_delivered;  ///< order within a pair of ranks is kept
    uint64_t num_messages;
  };
  double now;
  double next_event;  ///< when the next message will have left; never while num_messages is 0
  int num_messages;
  std::array<Pair, kMaxShapedRanks * kMaxShapedRanks>
      pairs;                                             ///< by source * kMaxShapedRanks + dest.
  std::array<LinkMessage, kMaxShapedMessages> messages;  ///< in the order in which they were sent
};

/// Computes when messages leave and arrive: a fluid model, without threads and without a clock of
/// its own (time is an argument, and never goes back).
///
/// The messages from one rank to another are a flow, first in, first out. At every moment the flows
/// share the uplinks of their senders, the downlinks of their receivers and, where there is an
/// override, the link between the two: max-min fairly (progressive filling; Bertsekas and Gallager,
/// Data Networks, 6.5.2), which is what competing TCP connections come close to. So a rank that
/// sends to two peers gives each half of its uplink, and what one cannot use the other gets. The
/// last byte arrives one latency, and up to one jitter, after it has left. Both directions of a
/// rank are independent (full duplex). Cost: O(flows^2) when a message starts or ends, O(1)
/// otherwise.
class LinkClock {
 public:
  /// @param seed  of the jitter; same seed and order of messages within a pair, same jitter
  /// @param state  shared by all ranks, who take turns
  LinkClock(const NetworkOptions& network, int num_ranks, uint64_t seed, LinkState& state);

  /// A message enters the network. @throws Error{wire}  more than kMaxShapedMessages under way
  void send(double now, const MessageKey& key, size_t num_bytes);
  /// Brings the state up to `now`: what has left by then is final.
  void advance(double now);
  /// The message, valid until the next call that changes anything; null: not sent, or removed.
  LinkMessage* find(const MessageKey& key);
  /// When anything will next leave its sender, if nothing is sent until then.
  double next_event() const { return state_.num_messages == 0 ? kNotYet : state_.next_event; }
  /// Forgets the messages that both sides are done with.
  void remove_done();

 private:
  struct Flow {
    LinkMessage* head = nullptr;
    double* up = nullptr;    // what is left of the resource, bytes per second
    double* down = nullptr;  // likewise
    int* up_flows = nullptr;
    int* down_flows = nullptr;
    double link = 0;
  };

  void settle(double now);
  void complete(LinkMessage& message, double now);
  void share();
  std::vector<Flow> flows_under_way();
  static double fair_rate(const Flow& flow);

  size_t pair_of(const MessageKey& key) const {
    return static_cast<size_t>(key.source * num_ranks_ + key.destination);
  }

  int num_ranks_;
  uint64_t seed_;
  double jitter_;
  std::vector<double> up_, down_;  // by rank, payload bytes per second
  std::vector<double> link_;       // by pair_of
  std::vector<double> latency_;    // by pair_of
  LinkState& state_;

  // Scratch of share().
  std::vector<double> up_left_, down_left_;
  std::vector<int> up_flows_, down_flows_;
  std::vector<char> has_head_;
};

}  // namespace subring::wire
