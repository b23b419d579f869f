#include "subring/wire/shaped.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <thread>

#include "shared_links.hpp"
#include "subring/wire/group.hpp"

namespace subring::wire {

namespace {

using Clock = std::chrono::steady_clock;

/// Rank 0 makes the shared memory, the others open it.
SharedLinks share_links(Transport& inner, std::chrono::duration<double> timeout) {
  Group world{&inner, {}, inner.rank(), timeout};
  world.ranks.resize(static_cast<size_t>(inner.size()));
  std::iota(world.ranks.begin(), world.ranks.end(), 0);
  std::array<char, 64> name{};
  const auto exchange_name = [&] {
    broadcast(world, 0, std::as_writable_bytes(std::span(name)), TrafficKind::other);
  };
  if (inner.rank() != 0) {
    exchange_name();
    SharedLinks links = SharedLinks::open(name.data());
    barrier(world);
    return links;
  }
  SharedLinks links = SharedLinks::create();
  links.name().copy(name.data(), name.size() - 1);
  exchange_name();
  barrier(world);
  links.unlink();
  return links;
}

void check_one_host(const Transport& inner) {
  SUBRING_CHECK(inner.num_local_ranks() == inner.size(),
                ErrorKind::config,
                "network: links are emulated between ranks of one host, and only {} of {} ranks "
                "are on this one; start all on one host, or leave network out",
                inner.num_local_ranks(),
                inner.size());
}

}  // namespace

struct ShapedTransport::Links {
  SharedLinks memory;
  LinkClock clock;
};

/// A transfer is done when the inner one is, and its time on the emulated link has passed.
class ShapedTransport::ShapedTransfer : public Transfer {
 public:
  ShapedTransfer(ShapedTransport& transport, Side side, const MessageKey& key)
      : transport_(transport), side_(side), key_(key) {}

  ~ShapedTransfer() override { std::erase(transport_.moving_, this); }

  void start(std::unique_ptr<Transfer> inner) {
    inner_ = std::move(inner);
    transport_.moving_.push_back(this);
  }

  bool test() override {
    if (done_) return true;
    if (!has_moved_ && !move()) return false;
    // Finds out when the group has failed, long before a slow link has carried its bytes.
    inner_->test();
    transport_.progress();
    look_at_link();
    return done_;
  }

  bool wait_for(std::chrono::microseconds patience) override {
    const Clock::time_point deadline = Clock::now() + patience;
    while (!test()) {
      const auto left = deadline - Clock::now();
      if (left <= left.zero()) return false;
      if (!has_moved_) {
        inner_->wait_for(std::chrono::ceil<std::chrono::microseconds>(left));
        continue;
      }
      // The bytes of other transfers need this rank's hands more often than its own link.
      const auto longest = transport_.moving_.empty() ? kLongestSleep : kLongestSleep / 10;
      std::this_thread::sleep_for(std::min<Clock::duration>({left, longest, until_link_changes_}));
    }
    return true;
  }

  /// Lets the inner transport carry the bytes. True when it has.
  bool move() {
    if (!inner_->test()) return false;
    has_moved_ = true;
    std::erase(transport_.moving_, this);
    return true;
  }

 private:
  void look_at_link() {
    LinkClock& clock = transport_.links_->clock;
    const SharedLinks::Lock lock(transport_.links_->memory);
    const double now = lock.now();
    clock.advance(now);
    LinkMessage* message = clock.find(key_);
    SUBRING_CHECK(
        message != nullptr,
        ErrorKind::wire,
        "rank {} has message {} of tag {} from rank {}, but the emulated network does not",
        key_.destination,
        key_.index,
        key_.tag,
        key_.source);
    const bool sends = side_ == Side::sender;
    const double due = sends ? message->left_seconds : message->delivered_seconds;
    const double seconds = std::min(due, clock.next_event()) - now;
    constexpr double kShortest = 20e-6;  // no less than it takes to fall asleep
    const double longest = std::chrono::duration<double>(kLongestSleep).count();
    until_link_changes_ = std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(std::clamp(seconds, kShortest, longest)));
    if (now < due) return;
    done_ = true;
    (sends ? message->sender_is_done : message->receiver_is_done) = true;
    clock.remove_done();
  }

  ShapedTransport& transport_;
  Side side_;
  MessageKey key_;
  std::unique_ptr<Transfer> inner_;
  bool has_moved_ = false;
  bool done_ = false;
  Clock::duration until_link_changes_{};
};

ShapedTransport::ShapedTransport(Transport& inner,
                                 const NetworkOptions& network,
                                 uint64_t seed,
                                 std::chrono::duration<double> timeout)
    : inner_(inner) {
  check_one_host(inner);
  SharedLinks memory = share_links(inner, timeout);
  LinkClock clock(network, inner.size(), seed, memory.state());
  links_ = std::make_unique<Links>(Links{std::move(memory), std::move(clock)});
}

ShapedTransport::~ShapedTransport() = default;

MessageKey ShapedTransport::next_key(Side side, const Envelope& envelope) {
  SUBRING_CHECK(envelope.peer >= 0 && envelope.peer < size(),
                ErrorKind::wire,
                "rank {} has no peer {} among {} ranks ({})",
                rank(),
                envelope.peer,
                size(),
                envelope.what);
  const bool sends = side == Side::sender;
  auto& counts = sends ? num_sent_ : num_received_;
  return {.source = sends ? rank() : envelope.peer,
          .destination = sends ? envelope.peer : rank(),
          .tag = envelope.tag,
          .index = counts[{envelope.peer, envelope.tag}]++};
}

/// The inner transport makes progress for all when it is called for one.
void ShapedTransport::progress() {
  if (!moving_.empty()) moving_.front()->move();
}

std::unique_ptr<Transfer> ShapedTransport::send(const Envelope& to,
                                                std::span<const std::byte> bytes) {
  if (to.peer == rank()) return inner_.send(to, bytes);
  const MessageKey key = next_key(Side::sender, to);
  auto transfer = std::make_unique<ShapedTransfer>(*this, Side::sender, key);
  {
    const SharedLinks::Lock lock(links_->memory);
    links_->clock.send(lock.now(), key, bytes.size());
  }
  // After the link knows of it: who receives the bytes finds the message there.
  transfer->start(inner_.send(to, bytes));
  return transfer;
}

std::unique_ptr<Transfer> ShapedTransport::receive(const Envelope& from,
                                                   std::span<std::byte> bytes) {
  if (from.peer == rank()) return inner_.receive(from, bytes);
  const MessageKey key = next_key(Side::receiver, from);
  auto transfer = std::make_unique<ShapedTransfer>(*this, Side::receiver, key);
  transfer->start(inner_.receive(from, bytes));
  return transfer;
}

}  // namespace subring::wire
