#pragma once

#include <deque>
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

/// Moves the blocks of one layer round the ring while the caller computes. The order of work is
/// fixed (distance, then chunk), so a run repeats to the bit. All buffers are the caller's and stay
/// untouched from a start to its finish.
///
/// Two exchanges of a group may be under way at once, on different lanes.
class RingExchange {
 public:
  static constexpr int kNumLanes = 2;

  /// @param lane  keeps its messages apart from those of the other lane
  RingExchange(const wire::Group& group, Schedule schedule, int lane)
      : group_(group), schedule_(std::move(schedule)), lane_(lane) {}

  const Schedule& schedule() const { return schedule_; }
  /// True for an owned chunk that another rank needs.
  bool leaves(int chunk) const;

  /// Makes room for the blocks of others.
  void start_forward(const BlockSlots& slots);
  /// Sends the block of an owned chunk, now in its slot, to those who need it; else does nothing.
  void send_forward(int chunk);
  /// After all send_forward(): calls visit(chunk) for each needed block of another rank once it
  /// lies in its slot; returns when all has left. Blocks that others need are passed on.
  void finish_forward(const std::function<void(int)>& visit);

  /// Where a gradient stands when a rank adds to it.
  struct Contribution {
    int chunk = 0;
    int distance = 0;
    int buffer = 0;                       ///< where compute() has left this rank's share
    std::span<const std::byte> incoming;  ///< sum of the ranks further out; empty for the outermost
    std::span<std::byte> outgoing;        ///< to be written: incoming plus this rank's share
  };

  /// What a rank does for the gradients of other ranks' blocks.
  struct GradientWork {
    /// Shares that can wait at a time for what comes from further out.
    int num_buffers = 1;
    /// Computes this rank's share of a chunk's gradient into a buffer: farthest chunk first.
    std::function<void(int chunk, int buffer)> compute;
    /// Adds share and incoming; then the sum goes on towards its owner.
    std::function<void(const Contribution&)> contribute;
    /// Work on the rank's own blocks, after all compute().
    std::function<void()> local;
  };

  /// Sends this rank's share of the gradients of all other ranks' blocks on their way home. A share
  /// waits in its buffer while the next ones are computed, until its incoming part is there.
  /// @param incoming, outgoing  slots by chunk; must not be the same memory
  void start_backward(const BlockSlots& incoming,
                      const BlockSlots& outgoing,
                      const GradientWork& work);
  /// Waits until the gradient of an owned chunk that leaves() lies in its incoming slot.
  void wait_home(int chunk);
  /// After all wait_home(): returns when all has left.
  void finish_backward();

  /// Lets transfers proceed and passes on what has come; to be called between pieces of work.
  void poll();

 private:
  enum class Direction { none, forward, backward };

  struct Pending {
    wire::Envelope envelope;
    std::unique_ptr<wire::Transfer> transfer;  // none: nothing is waited for
    bool done() const { return transfer == nullptr || transfer->test(); }
  };
  /// A share that is computed and waits for its incoming part.
  struct Share {
    size_t arrival = 0;
    int buffer = 0;
  };

  wire::Envelope envelope(int neighbour, int chunk) const;
  void send(int neighbour, int chunk, std::span<const std::byte> bytes);
  Pending receive(int neighbour, int chunk, std::span<std::byte> bytes) const;
  void wait(Pending& pending);
  void pass_on();
  void complete(const Share& share, const GradientWork& work);
  void finish();

  wire::Group group_;
  Schedule schedule_;
  int lane_;
  Direction direction_ = Direction::none;
  BlockSlots incoming_, outgoing_;  // by chunk; forward uses only the first
  std::vector<Pending> receives_;   // by arrival; backward: then by departure
  std::vector<size_t> to_pass_on_;  // arrivals that go on as they are and have not come yet
  std::deque<Pending> sends_;
};

}  // namespace subring::ring
