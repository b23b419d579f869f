#include "virtual_cluster.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "subring/core/error.hpp"

namespace subring::report {

using wire::kNotYet;

/// Either side of a message.
class VirtualRank::Arriving : public wire::Transfer {
 public:
  Arriving(VirtualRank& rank,
           std::shared_ptr<VirtualMessage> message,
           double VirtualMessage::*moment)
      : rank_(rank), message_(std::move(message)), moment_(moment) {}

  bool test() override { return (*message_).*moment_ <= rank_.now(); }

  bool wait_for(std::chrono::microseconds) override {
    const double start = rank_.now();
    if (!test()) rank_.cluster_.sleep(rank_, kNotYet);
    rank_.waited_seconds_ += rank_.now_ - start;
    return test();
  }

 private:
  VirtualRank& rank_;
  std::shared_ptr<VirtualMessage> message_;
  double VirtualMessage::*moment_;
};

int VirtualRank::size() const { return cluster_.num_ranks(); }

std::unique_ptr<wire::Transfer> VirtualRank::send_bytes(const wire::Envelope& to,
                                                        int64_t num_bytes) {
  catch_up();
  sent_bytes_[static_cast<size_t>(to.kind)] += num_bytes;
  const bool is_kv =
      to.kind == wire::TrafficKind::kv_forward || to.kind == wire::TrafficKind::kv_backward;
  const double on_link = static_cast<double>(num_bytes) * (is_kv ? cluster_.kv_scale_ : 1);
  return std::make_unique<Arriving>(
      *this, cluster_.post_send(rank_, to, on_link), &VirtualMessage::left);
}

std::unique_ptr<wire::Transfer> VirtualRank::send(const wire::Envelope& to,
                                                  std::span<const std::byte> bytes) {
  return send_bytes(to, static_cast<int64_t>(bytes.size()));
}

std::unique_ptr<wire::Transfer> VirtualRank::receive(const wire::Envelope& from,
                                                     std::span<std::byte>) {
  catch_up();
  return std::make_unique<Arriving>(
      *this, cluster_.post_receive(rank_, from), &VirtualMessage::delivered);
}

void VirtualRank::compute(double seconds) {
  compute_seconds_ += seconds;
  pending_ += seconds;
  if (pending_ < kPollSeconds) return;
  const double end = now_ + std::exchange(pending_, 0.0);
  while (now_ < end) {
    cluster_.sleep(*this, end);
    if (poll_) poll_();
  }
}

void VirtualRank::catch_up() {
  const double end = now_ + std::exchange(pending_, 0.0);
  while (now_ < end) cluster_.sleep(*this, end);
}

VirtualCluster::VirtualCluster(const wire::NetworkOptions& network, int num_ranks, double kv_scale)
    : state_(std::make_unique<wire::LinkState>()), kv_scale_(kv_scale) {
  clock_ = std::make_unique<wire::LinkClock>(network, num_ranks, 1, *state_);
  for (int rank = 0; rank < num_ranks; ++rank) {
    ranks_.push_back(std::make_unique<VirtualRank>(*this, rank));
  }
}

/// The one message of this key, for whichever side asks first; forgotten when both have.
std::shared_ptr<VirtualMessage> VirtualCluster::message(const wire::MessageKey& key) {
  const std::tuple id{key.source, key.destination, key.tag, key.index};
  const auto [found, is_new] = messages_.try_emplace(id, nullptr);
  if (is_new) found->second = std::make_shared<VirtualMessage>();
  return found->second;
}

std::shared_ptr<VirtualMessage> VirtualCluster::post_send(int from,
                                                          const wire::Envelope& to,
                                                          double num_bytes) {
  const wire::MessageKey key{.source = from,
                             .destination = to.peer,
                             .tag = to.tag,
                             .index = ends_[{from, to.peer, to.tag}].num_sent++};
  auto result = message(key);
  clock_->send(ranks_[static_cast<size_t>(from)]->now_, key, static_cast<size_t>(num_bytes));
  collect();
  return result;
}

std::shared_ptr<VirtualMessage> VirtualCluster::post_receive(int to, const wire::Envelope& from) {
  const uint32_t index = ends_[{from.peer, to, from.tag}].num_received++;
  const wire::MessageKey key{
      .source = from.peer, .destination = to, .tag = from.tag, .index = index};
  auto result = message(key);
  if (result->left != kNotYet) messages_.erase({from.peer, to, from.tag, index});
  return result;
}

/// Takes off the clock what has left, whose arrival is then known.
void VirtualCluster::collect() {
  for (int i = 0; i < state_->num_messages; ++i) {
    wire::LinkMessage& on_link = state_->messages[static_cast<size_t>(i)];
    if (on_link.left_seconds == kNotYet) continue;
    const wire::MessageKey& key = on_link.key;
    const auto known = message(key);
    known->left = on_link.left_seconds;
    known->delivered = on_link.delivered_seconds;
    events_.push({known->left, key.source});
    events_.push({known->delivered, key.destination});
    on_link.sender_is_done = on_link.receiver_is_done = true;
    if (ends_[{key.source, key.destination, key.tag}].num_received > key.index) {
      messages_.erase({key.source, key.destination, key.tag, key.index});
    }
  }
  clock_->remove_done();
}

/// The rank whose time has come, after all that happens on the links before.
VirtualRank* VirtualCluster::next_rank() {
  while (true) {
    VirtualRank* next = nullptr;
    for (const auto& rank : ranks_) {
      if (!rank->finished_ && (next == nullptr || rank->wake_ < next->wake_)) next = rank.get();
    }
    if (next == nullptr) return nullptr;
    const double link = clock_->next_event();
    const double event = events_.empty() ? kNotYet : events_.top().time;
    if (link < kNotYet && link <= std::min(event, next->wake_)) {
      clock_->advance(link);
      collect();
    } else if (event < kNotYet && event <= next->wake_) {
      VirtualRank& woken = *ranks_[static_cast<size_t>(events_.top().rank)];
      woken.wake_ = std::min(woken.wake_, std::max(event, woken.now_));
      events_.pop();
    } else {
      SUBRING_CHECK(next->wake_ < kNotYet, ErrorKind::wire, "all ranks of the plan wait");
      return next;
    }
  }
}

/// Under mutex_.
void VirtualCluster::pass_turn() {
  try {
    running_ = failure_ ? nullptr : next_rank();
  } catch (...) {
    failure_ = std::current_exception();
  }
  if (failure_) {
    for (const auto& rank : ranks_) rank->turn_.notify_one();
  } else if (running_ != nullptr) {
    running_->now_ = running_->wake_;
    running_->turn_.notify_one();
  }
}

void VirtualCluster::sleep(VirtualRank& rank, double until) {
  std::unique_lock lock(mutex_);
  rank.wake_ = until;
  pass_turn();
  rank.turn_.wait(lock, [&] { return running_ == &rank || failure_; });
  if (failure_) throw Error(ErrorKind::wire, "another rank of the plan failed");
}

void VirtualCluster::run_rank(VirtualRank& rank, const std::function<void(VirtualRank&)>& body) {
  try {
    {
      std::unique_lock lock(mutex_);
      rank.turn_.wait(lock, [&] { return running_ == &rank || failure_; });
      if (failure_) return;
    }
    body(rank);
  } catch (...) {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  const std::scoped_lock lock(mutex_);
  rank.finished_ = true;
  pass_turn();
}

void VirtualCluster::run(const std::function<void(VirtualRank&)>& body) {
  std::vector<std::thread> threads;
  for (const auto& rank : ranks_) {
    threads.emplace_back([&, r = rank.get()] { run_rank(*r, body); });
  }
  {
    const std::scoped_lock lock(mutex_);
    pass_turn();
  }
  for (std::thread& thread : threads) thread.join();
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace subring::report
