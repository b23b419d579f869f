#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "subring/backend/backend.hpp"
#include "subring/wire/group.hpp"

namespace subring::sync {

/// Numbers that share one scale in an int8 frame of weights: 1 / 64 byte of scale a number.
constexpr int64_t kScaleGroup = 64;

/// A vector that a FrameRing sums; the same length, format and rounding on every member.
struct RingBuffer {
  std::span<float> values;    ///< in: this member's addend; out: factor * sum of all
  std::span<float> residual;  ///< out: what this member's roundings left of the sum; empty: dropped
  FrameFormat format = FrameFormat::fp32;
  Rounding rounding = Rounding::nearest;
};

/// Ring all-reduce of vectors that travel as frames and leave the same bits on every member, one
/// operation at a time, without blocking: poll() moves it on.
///
/// A vector is cut into rounds and each round into m segments, in whole groups of kScaleGroup.
/// Reduce-scatter: a member decodes the partial sum that arrives, adds its own numbers, encodes the
/// sum anew. All-gather: the last member of each chain encodes factor * sum once, and these bytes
/// go round as they are; all decode them, their maker too. So each member rounds each number once,
/// and with `residual` nothing is lost:
///     sum over members of values in = values out / factor + sum over members of residual
/// up to the rounding of f32. Error of a sum: at most m roundings of partial sums; one rounding, to
/// nearest, is half a step of the format (docs/numerics.md), of the largest number of its group.
///
/// Cost: frame_ring_bytes; each number is encoded once and decoded m times. Up to 4 rounds of 128
/// Ki numbers a member are under way, which hides latencies of 20 ms up to 200 Mbps in int8.
/// Traffic kind weights, tags from kFirstTag on.
class FrameRing {
 public:
  static constexpr int kFirstTag = 31000;

  /// @param factor  1 for sums, 1 / m for means
  FrameRing(wire::Group group, double factor);

  /// Begins; the buffers belong to the ring until poll() returns true. Not while one is under way.
  /// @param seed  of stochastic rounding; another one for each operation
  void start(std::vector<RingBuffer> buffers, uint64_t seed);
  /// Does what can be done at once. @return whether nothing is under way. @throws Error{wire}
  bool poll();
  /// Polls until done; sleeps count as the transport's waits. @throws Error{wire}
  void finish();

 private:
  static constexpr size_t kNumSlots = 4;

  /// Part of a buffer that is reduced by itself.
  struct Round {
    size_t buffer = 0;
    int64_t first = 0;
    int64_t count = 0;
  };
  /// Rounds s, s + kNumSlots, ...: one after another, on a tag of their own.
  struct Slot {
    size_t round = 0;
    int hop = 0;  ///< of 2 (m - 1)
    bool posted = false;
    std::vector<std::byte> outgoing, incoming;
    std::unique_ptr<wire::Transfer> send, receive;
  };
  struct Segment {
    int64_t first = 0;  ///< in its buffer
    int64_t count = 0;
  };

  Segment segment(const Round& round, int index) const;
  wire::Envelope envelope(const Slot& slot, int distance) const;
  void post(Slot& slot);
  void absorb(Slot& slot);
  bool advance(Slot& slot);
  void encode(const Round& round, const Segment& part, double factor, std::vector<std::byte>& to);
  void decode(const Round& round, const Segment& part, std::vector<std::byte>& from, Write write);
  void check_deadline(double waited);

  wire::Group group_;
  double factor_;
  // Its own pool of one thread: poll() is called from within operations of the trainer's backend.
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Stream> stream_;
  std::vector<RingBuffer> buffers_;
  std::vector<Round> rounds_;
  std::array<Slot, kNumSlots> slots_;
  uint64_t seed_ = 0;
  int64_t hops_done_ = 0;
};

/// Bytes that all members together send for one vector.
int64_t frame_ring_bytes(FrameFormat format, int64_t num_values, int num_members);

}  // namespace subring::sync
