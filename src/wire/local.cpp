#include "subring/wire/local.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace subring::wire {

namespace {

enum class Direction { send, receive };

/// One posted half of a message. Guarded by the mutex of its mailbox.
struct Post {
  Direction direction;
  int source;
  int destination;
  int tag;
  std::string_view what;
  const std::byte* send_data;
  std::byte* receive_data;
  size_t num_bytes;
  bool done = false;
  std::string failure;  // not empty: the halves did not fit
};

/// Where the messages to one rank meet.
struct Mailbox {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Post*> unmatched;  // in the order of posting; few at a time
};

/// Copies `send` to `receive`, or marks both as failed when their lengths differ.
void deliver(Post& send, Post& receive) {
  if (send.num_bytes != receive.num_bytes) {
    send.failure = receive.failure =
        fmt::format("rank {} sent {} bytes ({}) to rank {}, which expects {} bytes ({}) at tag {}",
                    send.source,
                    send.num_bytes,
                    send.what,
                    send.destination,
                    receive.num_bytes,
                    receive.what,
                    send.tag);
    return;
  }
  if (send.num_bytes > 0) std::memcpy(receive.receive_data, send.send_data, send.num_bytes);
  send.done = receive.done = true;
}

/// All that the ranks of one hub share.
struct Exchange {
  explicit Exchange(int num_ranks) : mailboxes(static_cast<size_t>(num_ranks)) {}

  int size() const { return static_cast<int>(mailboxes.size()); }

  void abort(int rank, std::string_view cause) noexcept {
    {
      const std::lock_guard lock(failure_mutex);
      if (failed_rank.load() >= 0) return;  // the first cause counts
      // Out of memory here would only lose the text.
      try {
        failure = fmt::format("rank {} failed: {}", rank, cause);
      } catch (const std::exception&) {
      }
      failed_rank.store(rank);
    }
    for (Mailbox& mailbox : mailboxes) {
      // Taking the lock orders this after a waiter's look at failed_rank, before its sleep.
      const std::lock_guard lock(mailbox.mutex);
      mailbox.changed.notify_all();
    }
  }

  void check_alive() {
    if (failed_rank.load() < 0) return;
    const std::lock_guard lock(failure_mutex);
    throw Error(ErrorKind::wire, failure);
  }

  std::vector<Mailbox> mailboxes;  // by destination
  std::atomic<int> failed_rank{-1};
  std::mutex failure_mutex;
  std::string failure;  // guarded by failure_mutex
};

class LocalTransfer : public Transfer {
 public:
  LocalTransfer(Exchange& exchange, const Post& post)
      : exchange_(exchange),
        mailbox_(exchange.mailboxes[static_cast<size_t>(post.destination)]),
        post_(post) {
    const std::lock_guard lock(mailbox_.mutex);
    auto& unmatched = mailbox_.unmatched;
    const auto partner = std::find_if(unmatched.begin(), unmatched.end(), [&](const Post* other) {
      return other->direction != post_.direction && other->source == post_.source &&
             other->tag == post_.tag;
    });
    if (partner == unmatched.end()) {
      unmatched.push_back(&post_);
      return;
    }
    Post& other = **partner;
    unmatched.erase(partner);
    const bool sending = post_.direction == Direction::send;
    deliver(sending ? post_ : other, sending ? other : post_);
    mailbox_.changed.notify_all();
  }

  ~LocalTransfer() override {
    const std::lock_guard lock(mailbox_.mutex);
    std::erase(mailbox_.unmatched, &post_);
  }

  bool test() override { return wait_for(std::chrono::microseconds{0}); }

  bool wait_for(std::chrono::microseconds patience) override {
    std::unique_lock lock(mailbox_.mutex);
    const auto settled = [&] {
      return post_.done || !post_.failure.empty() || exchange_.failed_rank.load() >= 0;
    };
    if (patience.count() > 0 && !settled()) {
      mailbox_.changed.wait_for(lock, patience, settled);
    }
    exchange_.check_alive();
    if (!post_.failure.empty()) throw Error(ErrorKind::wire, post_.failure);
    return post_.done;
  }

 private:
  Exchange& exchange_;
  Mailbox& mailbox_;
  Post post_;
};

}  // namespace

struct LocalHub::State : Exchange {
  using Exchange::Exchange;
};

class LocalTransport : public Transport {
 public:
  LocalTransport(Exchange& exchange, int rank) : exchange_(exchange), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return exchange_.size(); }
  int num_local_ranks() const override { return exchange_.size(); }

  std::unique_ptr<Transfer> send(const Envelope& to, std::span<const std::byte> bytes) override {
    check_peer(to);
    return post({.direction = Direction::send,
                 .source = rank_,
                 .destination = to.peer,
                 .tag = to.tag,
                 .what = to.what,
                 .send_data = bytes.data(),
                 .receive_data = nullptr,
                 .num_bytes = bytes.size(),
                 .failure = {}});
  }

  std::unique_ptr<Transfer> receive(const Envelope& from, std::span<std::byte> bytes) override {
    check_peer(from);
    return post({.direction = Direction::receive,
                 .source = from.peer,
                 .destination = rank_,
                 .tag = from.tag,
                 .what = from.what,
                 .send_data = nullptr,
                 .receive_data = bytes.data(),
                 .num_bytes = bytes.size(),
                 .failure = {}});
  }

  void abort(std::string_view cause, int) noexcept override { exchange_.abort(rank_, cause); }

 private:
  void check_peer(const Envelope& envelope) const {
    SUBRING_CHECK(envelope.peer >= 0 && envelope.peer < size(),
                  ErrorKind::wire,
                  "rank {} has no peer {} among {} ranks ({})",
                  rank_,
                  envelope.peer,
                  size(),
                  envelope.what);
  }

  std::unique_ptr<Transfer> post(const Post& half) {
    return std::make_unique<LocalTransfer>(exchange_, half);
  }

  Exchange& exchange_;
  int rank_;
};

LocalHub::LocalHub(int num_ranks) {
  SUBRING_CHECK(num_ranks >= 1, ErrorKind::wire, "a group of {} ranks", num_ranks);
  state_ = std::make_unique<State>(num_ranks);
}

LocalHub::~LocalHub() = default;

std::unique_ptr<Transport> LocalHub::connect(int rank) {
  SUBRING_CHECK(rank >= 0 && rank < state_->size(),
                ErrorKind::wire,
                "rank {} of {} ranks",
                rank,
                state_->size());
  return std::make_unique<LocalTransport>(*state_, rank);
}

void run_local_ranks(int num_ranks, const std::function<void(Transport&)>& body) {
  LocalHub hub(num_ranks);
  std::mutex mutex;
  std::exception_ptr first_failure;  // guarded by mutex
  // Kept before the others hear of it, so that what they throw then comes second.
  const auto fail = [&](Transport& transport, std::string_view cause) {
    {
      const std::lock_guard lock(mutex);
      if (!first_failure) first_failure = std::current_exception();
    }
    transport.abort(cause, 1);
  };
  const auto run_rank = [&](int rank) {
    const auto transport = hub.connect(rank);
    try {
      body(*transport);
    } catch (const std::exception& error) {
      fail(*transport, error.what());
    } catch (...) {
      fail(*transport, "unknown exception");
    }
  };

  std::vector<std::thread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads) thread.join();
  if (first_failure) std::rethrow_exception(first_failure);
}

}  // namespace subring::wire
