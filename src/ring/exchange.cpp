#include "subring/ring/exchange.hpp"

namespace subring::ring {
namespace {

using wire::TrafficKind;

/// Forward and backward messages of one chunk can be under way between the same two ranks.
int tag_of(TrafficKind kind, int chunk) { return 2 * chunk + (kind == TrafficKind::kv_backward); }

}  // namespace

RingExchange::Pending RingExchange::post_send(int neighbour,
                                              TrafficKind kind,
                                              int chunk,
                                              std::span<const std::byte> bytes) {
  const wire::Envelope envelope{group_.neighbour(neighbour),
                                tag_of(kind, chunk),
                                kind,
                                kind == TrafficKind::kv_forward ? "kv block" : "kv gradient"};
  return {envelope, group_.transport->send(envelope, bytes)};
}

RingExchange::Pending RingExchange::post_receive(int neighbour,
                                                 TrafficKind kind,
                                                 int chunk,
                                                 std::span<std::byte> bytes) {
  const wire::Envelope envelope{group_.neighbour(neighbour),
                                tag_of(kind, chunk),
                                kind,
                                kind == TrafficKind::kv_forward ? "kv block" : "kv gradient"};
  return {envelope, group_.transport->receive(envelope, bytes)};
}

void RingExchange::wait(Pending& pending) {
  if (pending.transfer == nullptr) return;
  wire::wait(*pending.transfer, pending.envelope, *group_.transport, group_.timeout);
  pending.transfer.reset();
}

void RingExchange::finish_sends() {
  for (Pending& send : sends_) wait(send);
  sends_.clear();
  receives_.clear();
}

void RingExchange::pass_on_forward(size_t arrival_index) {
  const Arrival& arrival = schedule_.arrivals[arrival_index];
  if (arrival.forwarded) {
    sends_.push_back(post_send(1,
                               TrafficKind::kv_forward,
                               arrival.chunk,
                               (*forward_slots_)[static_cast<size_t>(arrival.chunk)]));
  }
}

void RingExchange::poll() {
  if (forward_slots_ == nullptr) {
    for (Pending& send : sends_) {
      if (send.transfer != nullptr && send.transfer->test()) send.transfer.reset();
    }
    return;
  }
  while (next_arrival_ < receives_.size() && receives_[next_arrival_].transfer->test()) {
    receives_[next_arrival_].transfer.reset();
    pass_on_forward(next_arrival_++);
  }
}

void RingExchange::forward(const BlockSlots& slots,
                           const std::function<void()>& local,
                           const std::function<void(int)>& visit) {
  forward_slots_ = &slots;
  next_arrival_ = 0;
  for (const Arrival& arrival : schedule_.arrivals) {
    receives_.push_back(post_receive(
        -1, TrafficKind::kv_forward, arrival.chunk, slots[static_cast<size_t>(arrival.chunk)]));
  }
  for (int chunk : schedule_.departures) {
    sends_.push_back(
        post_send(1, TrafficKind::kv_forward, chunk, slots[static_cast<size_t>(chunk)]));
  }
  local();
  for (size_t i = 0; i < schedule_.arrivals.size(); ++i) {
    poll();
    if (next_arrival_ == i) {
      wait(receives_[i]);
      pass_on_forward(next_arrival_++);
    }
    if (schedule_.arrivals[i].needed) visit(schedule_.arrivals[i].chunk);
  }
  forward_slots_ = nullptr;
  finish_sends();
}

void RingExchange::backward(
    const BlockSlots& incoming,
    const BlockSlots& outgoing,
    const std::function<void(int)>& compute,
    const std::function<void(const Contribution&)>& contribute,
    const std::function<void()>& local,
    const std::function<void(int, std::span<const std::byte>)>& arrive_home) {
  const auto& arrivals = schedule_.arrivals;
  for (const Arrival& arrival : arrivals) {
    receives_.push_back(arrival.forwarded
                            ? post_receive(1,
                                           TrafficKind::kv_backward,
                                           arrival.chunk,
                                           incoming[static_cast<size_t>(arrival.chunk)])
                            : Pending{});
  }
  for (int chunk : schedule_.departures) {
    receives_.push_back(
        post_receive(1, TrafficKind::kv_backward, chunk, incoming[static_cast<size_t>(chunk)]));
  }

  for (size_t i = arrivals.size(); i-- > 0;) {
    const Arrival& arrival = arrivals[i];
    const auto slot = static_cast<size_t>(arrival.chunk);
    std::span<const std::byte> sum = outgoing[slot];
    if (arrival.needed) compute(arrival.chunk);
    wait(receives_[i]);
    if (arrival.needed) {
      contribute({.chunk = arrival.chunk,
                  .distance = arrival.distance,
                  .incoming = arrival.forwarded ? incoming[slot] : std::span<std::byte>{},
                  .outgoing = outgoing[slot]});
    } else {
      sum = incoming[slot];
    }
    sends_.push_back(post_send(-1, TrafficKind::kv_backward, arrival.chunk, sum));
  }
  local();
  for (size_t i = 0; i < schedule_.departures.size(); ++i) {
    const int chunk = schedule_.departures[i];
    wait(receives_[arrivals.size() + i]);
    arrive_home(chunk, incoming[static_cast<size_t>(chunk)]);
  }
  finish_sends();
}

}  // namespace subring::ring
