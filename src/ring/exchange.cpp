#include "subring/ring/exchange.hpp"

#include <algorithm>

namespace subring::ring {

using wire::TrafficKind;

wire::Envelope RingExchange::envelope(int neighbour, int chunk) const {
  const bool forward = direction_ == Direction::forward;
  // Messages of one chunk in either direction and on either lane can be under way between the same
  // two ranks. Of at most 4096 chunks (mesh): below the tags of angles.
  return {group_.neighbour(neighbour),
          2 * (kNumLanes * chunk + lane_) + (forward ? 0 : 1),
          forward ? TrafficKind::kv_forward : TrafficKind::kv_backward,
          forward ? "kv block" : "kv gradient"};
}

void RingExchange::send(int neighbour, int chunk, std::span<const std::byte> bytes) {
  const wire::Envelope to = envelope(neighbour, chunk);
  sends_.push_back({to, group_.transport->send(to, bytes)});
}

RingExchange::Pending RingExchange::receive(int neighbour,
                                            int chunk,
                                            std::span<std::byte> bytes) const {
  const wire::Envelope from = envelope(neighbour, chunk);
  return {from, group_.transport->receive(from, bytes)};
}

void RingExchange::wait(Pending& pending) {
  if (pending.transfer == nullptr) return;
  // Others may wait for what only passes through here.
  wire::wait(
      *pending.transfer, pending.envelope, *group_.transport, group_.timeout, [this] { poll(); });
}

bool RingExchange::leaves(int chunk) const {
  const auto& departures = schedule_.departures;
  return std::find(departures.begin(), departures.end(), chunk) != departures.end();
}

void RingExchange::poll() {
  if (direction_ == Direction::none) return;
  pass_on();
  // Sends of large blocks proceed only when they are looked at.
  for (Pending& send : sends_) {
    if (!send.done()) break;
  }
}

void RingExchange::pass_on() {
  const int neighbour = direction_ == Direction::forward ? 1 : -1;
  std::erase_if(to_pass_on_, [&](size_t i) {
    if (!receives_[i].done()) return false;
    const int chunk = schedule_.arrivals[i].chunk;
    send(neighbour, chunk, incoming_[static_cast<size_t>(chunk)]);
    return true;
  });
}

void RingExchange::finish() {
  while (!to_pass_on_.empty()) {
    wait(receives_[to_pass_on_.front()]);
    pass_on();
  }
  while (!sends_.empty()) {
    wait(sends_.front());
    sends_.pop_front();
  }
  receives_.clear();
  direction_ = Direction::none;
}

void RingExchange::start_forward(const BlockSlots& slots) {
  direction_ = Direction::forward;
  incoming_ = slots;
  for (size_t i = 0; i < schedule_.arrivals.size(); ++i) {
    const Arrival& arrival = schedule_.arrivals[i];
    receives_.push_back(receive(-1, arrival.chunk, slots[static_cast<size_t>(arrival.chunk)]));
    if (arrival.forwarded) to_pass_on_.push_back(i);
  }
}

void RingExchange::send_forward(int chunk) {
  if (leaves(chunk)) send(1, chunk, incoming_[static_cast<size_t>(chunk)]);
}

void RingExchange::finish_forward(const std::function<void(int)>& visit) {
  for (size_t i = 0; i < schedule_.arrivals.size(); ++i) {
    if (!schedule_.arrivals[i].needed) continue;
    wait(receives_[i]);
    pass_on();
    visit(schedule_.arrivals[i].chunk);
  }
  finish();
}

void RingExchange::complete(const Share& share, const GradientWork& work) {
  const Arrival& arrival = schedule_.arrivals[share.arrival];
  const auto slot = static_cast<size_t>(arrival.chunk);
  wait(receives_[share.arrival]);
  work.contribute({.chunk = arrival.chunk,
                   .distance = arrival.distance,
                   .buffer = share.buffer,
                   .incoming = arrival.forwarded ? incoming_[slot] : std::span<std::byte>{},
                   .outgoing = outgoing_[slot]});
  send(-1, arrival.chunk, outgoing_[slot]);
}

void RingExchange::start_backward(const BlockSlots& incoming,
                                  const BlockSlots& outgoing,
                                  const GradientWork& work) {
  direction_ = Direction::backward;
  incoming_ = incoming;
  outgoing_ = outgoing;
  const auto& arrivals = schedule_.arrivals;
  for (size_t i = 0; i < arrivals.size(); ++i) {
    const auto slot = static_cast<size_t>(arrivals[i].chunk);
    receives_.push_back(arrivals[i].forwarded ? receive(1, arrivals[i].chunk, incoming[slot])
                                              : Pending{});
    if (!arrivals[i].needed) to_pass_on_.push_back(i);
  }
  for (int chunk : schedule_.departures) {
    receives_.push_back(receive(1, chunk, incoming[static_cast<size_t>(chunk)]));
  }

  std::deque<Share> shares;
  const auto complete_first = [&] {
    complete(shares.front(), work);
    shares.pop_front();
  };
  int next_buffer = 0;
  for (size_t i = arrivals.size(); i-- > 0;) {
    if (!arrivals[i].needed) continue;
    if (static_cast<int>(shares.size()) == work.num_buffers) complete_first();
    work.compute(arrivals[i].chunk, next_buffer);
    shares.push_back({i, next_buffer});
    next_buffer = (next_buffer + 1) % work.num_buffers;
    while (!shares.empty() && receives_[shares.front().arrival].done()) complete_first();
  }
  work.local();
  while (!shares.empty()) complete_first();
}

void RingExchange::wait_home(int chunk) {
  const auto& departures = schedule_.departures;
  const auto index = std::find(departures.begin(), departures.end(), chunk) - departures.begin();
  wait(receives_[schedule_.arrivals.size() + static_cast<size_t>(index)]);
}

void RingExchange::finish_backward() { finish(); }

}  // namespace subring::ring
