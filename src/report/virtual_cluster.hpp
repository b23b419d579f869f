#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <queue>
#include <tuple>
#include <vector>

#include "subring/wire/link_clock.hpp"
#include "subring/wire/metered.hpp"
#include "subring/wire/transport.hpp"

namespace subring::report {

class VirtualCluster;

/// A message between two virtual ranks; seconds of virtual time.
struct VirtualMessage {
  double left = wire::kNotYet;
  double delivered = wire::kNotYet;
};

/// One rank of a VirtualCluster: its clock, and an endpoint whose messages have a size and a travel
/// time but no content (buffers are never touched).
class VirtualRank : public wire::Transport {
 public:
  VirtualRank(VirtualCluster& cluster, int rank) : cluster_(cluster), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override;
  int num_local_ranks() const override { return size(); }
  std::unique_ptr<wire::Transfer> send(const wire::Envelope& to,
                                       std::span<const std::byte> bytes) override;
  std::unique_ptr<wire::Transfer> receive(const wire::Envelope& from,
                                          std::span<std::byte> bytes) override;
  void abort(std::string_view, int) noexcept override {}

  /// Sends so many bytes of weights; no buffer of that size exists.
  std::unique_ptr<wire::Transfer> send_bytes(const wire::Envelope& to, int64_t num_bytes);

  /// This rank works for so long; `poll` is called whenever a message has come or left meanwhile,
  /// to within kPollSeconds: as in a real run, short operations are not interrupted one by one.
  void compute(double seconds);
  static constexpr double kPollSeconds = 1e-4;
  void set_poll(std::function<void()> poll) { poll_ = std::move(poll); }

  double now() {
    catch_up();
    return now_;
  }
  double compute_seconds() const { return compute_seconds_; }
  double waited_seconds() const { return waited_seconds_; }
  const wire::TrafficBytes& sent_bytes() const { return sent_bytes_; }

 private:
  friend class VirtualCluster;
  class Arriving;

  /// Lets the clock go on by what has been computed since, without poll.
  void catch_up();

  VirtualCluster& cluster_;
  int rank_;
  std::function<void()> poll_;
  double now_ = 0;
  double wake_ = 0;     // while it sleeps: when it goes on
  double pending_ = 0;  // computed, and not on the clock yet
  double compute_seconds_ = 0;
  double waited_seconds_ = 0;
  bool finished_ = false;
  wire::TrafficBytes sent_bytes_{};
  std::condition_variable turn_;
};

/// Runs code of ranks in virtual time: a discrete-event simulation whose links are those of the
/// emulation (wire::LinkClock) and whose processes are the trainer's own functions. One thread a
/// rank, of which exactly one runs at a time, the one whose clock is least; so results do not
/// depend on this machine. Cost: about 10 microseconds for each change of turns.
class VirtualCluster {
 public:
  /// @param kv_scale  blocks of K and V take so many times their bytes on the links (the counts
  ///                  stay those of the bytes)
  VirtualCluster(const wire::NetworkOptions& network, int num_ranks, double kv_scale);

  /// Runs `body` on every rank from time 0 to its end. @throws the first failure of a rank;
  /// Error{wire} when all ranks wait
  void run(const std::function<void(VirtualRank&)>& body);

  const VirtualRank& rank(int index) const { return *ranks_[static_cast<size_t>(index)]; }
  int num_ranks() const { return static_cast<int>(ranks_.size()); }

 private:
  friend class VirtualRank;
  using Path = std::tuple<int, int, int>;  // source, destination, tag
  struct Ends {
    uint32_t num_sent = 0, num_received = 0;
  };
  struct Event {
    double time;
    int rank;
    bool operator<(const Event& other) const { return time > other.time; }
  };

  std::shared_ptr<VirtualMessage> message(const wire::MessageKey& key);
  std::shared_ptr<VirtualMessage> post_send(int from, const wire::Envelope& to, double num_bytes);
  std::shared_ptr<VirtualMessage> post_receive(int to, const wire::Envelope& from);
  void collect();
  void sleep(VirtualRank& rank, double until);
  VirtualRank* next_rank();
  void pass_turn();
  void run_rank(VirtualRank& rank, const std::function<void(VirtualRank&)>& body);

  std::unique_ptr<wire::LinkState> state_;
  std::unique_ptr<wire::LinkClock> clock_;
  double kv_scale_;
  std::vector<std::unique_ptr<VirtualRank>> ranks_;
  std::map<Path, Ends> ends_;
  std::map<std::tuple<int, int, int, uint32_t>, std::shared_ptr<VirtualMessage>> messages_;
  std::priority_queue<Event> events_;  // a rank has something to look at
  std::mutex mutex_;
  VirtualRank* running_ = nullptr;
  std::exception_ptr failure_;
};

}  // namespace subring::report
