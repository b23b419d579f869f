#include "subring/wire/link_clock.hpp"

#include <algorithm>

#include "subring/core/error.hpp"
#include "subring/core/random.hpp"

namespace subring::wire {

namespace {

/// Payload bytes a second of a link of so many bits a second.
double payload_rate(double bits_per_second) { return bits_per_second / 8 * kGoodput; }

}  // namespace

LinkClock::LinkClock(const NetworkOptions& network, int num_ranks, uint64_t seed, LinkState& state)
    : num_ranks_(num_ranks), seed_(seed), jitter_(network.jitter_seconds), state_(state) {
  SUBRING_CHECK(num_ranks <= kMaxShapedRanks,
                ErrorKind::config,
                "network: emulation is for up to {} ranks, not {}",
                kMaxShapedRanks,
                num_ranks);
  const auto ranks = static_cast<size_t>(num_ranks);
  up_.assign(ranks, payload_rate(network.bandwidth));
  down_ = up_;
  link_.assign(ranks * ranks, kUnlimited);
  latency_.assign(ranks * ranks, network.latency_seconds);
  for (const RankBandwidth& entry : network.ranks) {
    const auto rank = static_cast<size_t>(entry.rank);
    if (entry.up) up_.at(rank) = payload_rate(*entry.up);
    if (entry.down) down_.at(rank) = payload_rate(*entry.down);
  }
  for (const LinkOverride& entry : network.links) {
    const size_t pair = pair_of({.source = entry.from, .destination = entry.to});
    if (entry.bandwidth) link_.at(pair) = payload_rate(*entry.bandwidth);
    if (entry.latency_seconds) latency_.at(pair) = *entry.latency_seconds;
  }
}

void LinkClock::send(double now, const MessageKey& key, size_t num_bytes) {
  advance(now);
  settle(now);
  SUBRING_CHECK(state_.num_messages < kMaxShapedMessages,
                ErrorKind::wire,
                "the emulated network holds {} messages and has no room for more",
                kMaxShapedMessages);
  LinkMessage& message = state_.messages[static_cast<size_t>(state_.num_messages++)];
  message = {.key = key, .bytes_left = static_cast<double>(num_bytes)};
  share();
  // What needs no time has left.
  advance(now);
}

void LinkClock::advance(double now) {
  while (next_event() <= now) {
    const double event = std::max(state_.next_event, state_.now);
    settle(event);
    for (int i = 0; i < state_.num_messages; ++i) {
      LinkMessage& message = state_.messages[static_cast<size_t>(i)];
      if (message.finish_seconds <= event) complete(message, event);
    }
    share();
  }
}

LinkMessage* LinkClock::find(const MessageKey& key) {
  const auto end = state_.messages.begin() + state_.num_messages;
  const auto found = std::find_if(
      state_.messages.begin(), end, [&](const LinkMessage& m) { return m.key == key; });
  return found == end ? nullptr : &*found;
}

void LinkClock::remove_done() {
  const auto end = state_.messages.begin() + state_.num_messages;
  const auto kept = std::remove_if(state_.messages.begin(), end, [](const LinkMessage& m) {
    return m.sender_is_done && m.receiver_is_done;
  });
  state_.num_messages = static_cast<int>(kept - state_.messages.begin());
}

/// Lets what is under way flow up to `now`, which must not lie after the next event.
void LinkClock::settle(double now) {
  const double seconds = now - state_.now;
  if (!(seconds > 0)) return;
  for (int i = 0; i < state_.num_messages; ++i) {
    LinkMessage& message = state_.messages[static_cast<size_t>(i)];
    if (message.bytes_per_second == 0) continue;
    message.bytes_left = std::max(0.0, message.bytes_left - message.bytes_per_second * seconds);
  }
  state_.now = now;
}

void LinkClock::complete(LinkMessage& message, double now) {
  message.bytes_left = 0;
  message.bytes_per_second = 0;
  message.finish_seconds = kNotYet;
  message.left_seconds = now;
  LinkState::Pair& pair = state_.pairs[static_cast<size_t>(message.key.source * kMaxShapedRanks +
                                                           message.key.destination)];
  Random random(derive_seed(seed_, pair_of(message.key), pair.num_messages++));
  const double delay = latency_[pair_of(message.key)] + jitter_ * random.uniform();
  message.delivered_seconds = std::max(pair.last_delivered, now + delay);
  pair.last_delivered = message.delivered_seconds;
}

/// The first unfinished message of each pair of ranks.
std::vector<LinkClock::Flow> LinkClock::flows_under_way() {
  up_left_ = up_;
  down_left_ = down_;
  up_flows_.assign(up_.size(), 0);
  down_flows_.assign(up_.size(), 0);
  has_head_.assign(link_.size(), 0);
  std::vector<Flow> flows;
  for (int i = 0; i < state_.num_messages; ++i) {
    LinkMessage& message = state_.messages[static_cast<size_t>(i)];
    const size_t pair = pair_of(message.key);
    if (message.left_seconds != kNotYet || has_head_[pair] != 0) continue;
    has_head_[pair] = 1;
    const auto source = static_cast<size_t>(message.key.source);
    const auto destination = static_cast<size_t>(message.key.destination);
    flows.push_back({.head = &message,
                     .up = &up_left_[source],
                     .down = &down_left_[destination],
                     .up_flows = &up_flows_[source],
                     .down_flows = &down_flows_[destination],
                     .link = link_[pair]});
    ++up_flows_[source];
    ++down_flows_[destination];
  }
  return flows;
}

/// The most that a flow can have when all flows of its links have the same.
double LinkClock::fair_rate(const Flow& flow) {
  return std::min({*flow.up / *flow.up_flows, *flow.down / *flow.down_flows, flow.link});
}

/// Gives each flow its max-min fair rate from state_.now on, and finds the next event: the flow
/// with the least share gets it, what it takes is taken off its links, and so on with the others.
void LinkClock::share() {
  std::vector<Flow> flows = flows_under_way();
  state_.next_event = kNotYet;
  while (!flows.empty()) {
    const auto slowest =
        std::min_element(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) {
          return fair_rate(a) < fair_rate(b);
        });
    const double rate = fair_rate(*slowest);
    LinkMessage& message = *slowest->head;
    message.bytes_per_second = rate;
    // An unlimited link takes no time for any number of bytes (inf / inf would be no number).
    const double seconds = rate == kUnlimited ? 0 : message.bytes_left / rate;
    message.finish_seconds = state_.now + seconds;
    state_.next_event = std::min(state_.next_event, message.finish_seconds);
    if (*slowest->up != kUnlimited) *slowest->up = std::max(0.0, *slowest->up - rate);
    if (*slowest->down != kUnlimited) *slowest->down = std::max(0.0, *slowest->down - rate);
    --*slowest->up_flows;
    --*slowest->down_flows;
    flows.erase(slowest);
  }
}

}  // namespace subring::wire
