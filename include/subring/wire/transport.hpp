#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "subring/core/error.hpp"
#include "subring/core/trace.hpp"

namespace subring::wire {

/// What a message is sent for; bytes are counted by kind (metrics.jsonl).
enum class TrafficKind { kv_forward, kv_backward, weights, other };
constexpr int kNumTrafficKinds = 4;

/// Who talks to whom, and about what.
struct Envelope {
  int peer = 0;  ///< world rank of the other side
  /// Messages between two ranks match in the order in which they were posted within one tag.
  int tag = 0;
  TrafficKind kind = TrafficKind::other;
  std::string_view what;  ///< static text for errors and traces, e.g. "kv block"
};

/// A transfer under way. Its buffer must live and stay untouched until it is done.
/// Destroying one that is not done abandons it (only on the way out of a failed run).
class Transfer {
 public:
  virtual ~Transfer() = default;
  /// True when the buffer may be used again (send) or read (receive), and from then on. Makes
  /// progress.
  /// @throws Error{wire}  the group has failed; the message names the first rank that did, and why
  virtual bool test() = 0;
  /// Like test(), but sleeps up to `patience` for the transfer to end.
  virtual bool wait_for(std::chrono::microseconds patience) = 0;
};

/// One rank's endpoint of a group of ranks that exchange bytes. Used by one thread at a time.
///
/// Sends and receives never block. A send may end only when the peer has posted its receive, so
/// post both directions of an exchange before waiting for either. Sizes are known on both sides: a
/// received message of another length is an Error{wire}. Zero-byte messages are allowed.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Ranks on this host, this one included (to share its cores).
  virtual int num_local_ranks() const = 0;
  virtual std::unique_ptr<Transfer> send(const Envelope& to, std::span<const std::byte> bytes) = 0;
  virtual std::unique_ptr<Transfer> receive(const Envelope& from, std::span<std::byte> bytes) = 0;
  /// Tells every other rank, as well as the transport can, that this one failed and why.
  /// Local: wakes all threads, which then throw. MPI: ends the job (MPI_Abort) and does not return.
  virtual void abort(std::string_view cause, int exit_code) noexcept = 0;

  /// Seconds that wait() has spent on this endpoint object since the last call (a decorator counts
  /// its own waits, not those made on what it wraps).
  double take_wait_seconds() { return std::exchange(wait_seconds_, 0.0); }
  /// For those who wait without wait(), by test() and wait_for().
  void add_wait_seconds(double seconds) { wait_seconds_ += seconds; }

  /// What wait() does every kIdleInterval on this endpoint object, so that other transfers (blocks
  /// that only pass through, an average in the background) proceed while a rank waits for one.
  void set_idle(std::function<void()> idle) { idle_ = std::move(idle); }
  const std::function<void()>& idle() const { return idle_; }
  static constexpr std::chrono::microseconds kIdleInterval{500};

  /// Where transfers (MeteredTransport) and waits on this endpoint object are to be recorded;
  /// nullptr: nowhere. Transfers must end while `trace` lives.
  void set_trace(Trace* trace) { trace_ = trace; }
  Trace* trace() const { return trace_; }

 private:
  std::function<void()> idle_;
  Trace* trace_ = nullptr;
  double wait_seconds_ = 0.0;
};

/// Waits for `transfer` until `timeout` has passed; the time counts in take_wait_seconds().
/// @param progress  called meanwhile, as the transport's idle(); both must leave `transfer` alive
/// @throws Error{wire}  "rank 2 waited 30.0 s for rank 1 (kv block, tag 3)"
void wait(Transfer& transfer,
          const Envelope& envelope,
          Transport& transport,
          std::chrono::duration<double> timeout,
          const std::function<void()>& progress = {});

}  // namespace subring::wire
