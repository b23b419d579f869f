#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "subring/ring/schedule.hpp"
#include "subring/wire/group.hpp"

namespace subring::ring {

/// One block of bytes for every chunk of the sequence, by chunk.
using BlockSlots = std::vector<std::span<std::byte>>;

/// Moves the blocks of one layer round the ring while the caller computes. Order of work is fixed
/// (distance, then chunk), so a run repeats to the bit. All buffers are the caller's.
class RingExchange {
 public:
  RingExchange(const wire::Group& group, Schedule schedule)
      : group_(group), schedule_(std::move(schedule)) {}

  const Schedule& schedule() const { return schedule_; }

  /// Sends the owned blocks in `slots`, calls local(), then visit(chunk) for each needed block of
  /// another rank once it lies in its slot. Blocks that others need are passed on.
  void forward(const BlockSlots& slots,
               const std::function<void()>& local,
               const std::function<void(int)>& visit);

  /// Where a gradient stands when a rank adds to it.
  struct Contribution {
    int chunk = 0;
    int distance = 0;
    std::span<const std::byte> incoming;  ///< sum of the ranks further out; empty for the outermost
    std::span<std::byte> outgoing;        ///< to be written: incoming plus this rank's share
  };

  /// Brings gradients home, farthest first: contribute() for each needed block of another rank,
  /// then local(), then arrive_home(chunk, sum) for each owned block that had left. compute(chunk)
  /// is called before the wait for a contribution's incoming part, so that both overlap.
  /// @param incoming, outgoing  slots by chunk; must not be the same memory
  void backward(const BlockSlots& incoming,
                const BlockSlots& outgoing,
                const std::function<void(int)>& compute,
                const std::function<void(const Contribution&)>& contribute,
                const std::function<void()>& local,
                const std::function<void(int, std::span<const std::byte>)>& arrive_home);

  /// Lets transfers proceed and passes on what has come; to be called between pieces of work.
  void poll();

 private:
  struct Pending {
    wire::Envelope envelope;
    std::unique_ptr<wire::Transfer> transfer;
  };

  Pending post_send(int neighbour,
                    wire::TrafficKind kind,
                    int chunk,
                    std::span<const std::byte> bytes);
  Pending post_receive(int neighbour,
                       wire::TrafficKind kind,
                       int chunk,
                       std::span<std::byte> bytes);
  void wait(Pending& pending);
  void pass_on_forward(size_t arrival_index);
  void finish_sends();

  wire::Group group_;
  Schedule schedule_;
  std::vector<Pending> receives_;  // by arrival (forward), or by arrival then departure (backward)
  std::vector<Pending> sends_;
  size_t next_arrival_ = 0;  // first arrival that has not been passed on (forward)
  const BlockSlots* forward_slots_ = nullptr;  // set while forward() runs
};

}  // namespace subring::ring
