#include "subring/sync/frame_ring.hpp"

#include <algorithm>
#include <chrono>

#include "subring/core/random.hpp"

namespace subring::sync {
namespace {

// Of one member in one round: large against a message's overhead, small enough that a poll takes
// well under a millisecond.
constexpr int64_t kPieceNumbers = 128 * 1024;
static_assert(kPieceNumbers % kScaleGroup == 0);

/// Full groups as rows of a frame, then what is left as a frame of one row.
struct GroupedBytes {
  int64_t groups, rest, group_bytes, rest_bytes;
};

GroupedBytes grouped_bytes(FrameFormat format, int64_t count) {
  const int64_t groups = count / kScaleGroup, rest = count % kScaleGroup;
  return {.groups = groups,
          .rest = rest,
          .group_bytes = frame_bytes(format, groups, kScaleGroup),
          .rest_bytes = rest > 0 ? frame_bytes(format, 1, rest) : 0};
}

int64_t total_bytes(FrameFormat format, int64_t count) {
  const GroupedBytes bytes = grouped_bytes(format, count);
  return bytes.group_bytes + bytes.rest_bytes;
}

View u8_view(std::byte* data, int64_t size) { return {data, DType::u8, {size}}; }

}  // namespace

int64_t frame_ring_bytes(FrameFormat format, int64_t num_values, int num_members) {
  return 2 * (num_members - 1) * total_bytes(format, num_values);
}

FrameRing::FrameRing(wire::Group group, double factor)
    : group_(std::move(group)),
      factor_(factor),
      backend_(make_backend({.backend = BackendKind::cpu, .threads = 1}, 1)),
      stream_(backend_->make_stream()) {}

void FrameRing::start(std::vector<RingBuffer> buffers, uint64_t seed) {
  SUBRING_CHECK(rounds_.empty(), ErrorKind::wire, "an average is under way");
  if (group_.size() == 1) return;
  buffers_ = std::move(buffers);
  seed_ = seed;
  const int64_t longest = kPieceNumbers * group_.size();
  for (size_t b = 0; b < buffers_.size(); ++b) {
    const auto size = static_cast<int64_t>(buffers_[b].values.size());
    for (int64_t first = 0; first < size; first += longest) {
      rounds_.push_back({.buffer = b, .first = first, .count = std::min(longest, size - first)});
    }
  }
  for (size_t s = 0; s < kNumSlots; ++s) {
    slots_[s].round = s;
    slots_[s].hop = 0;
  }
  poll();
}

FrameRing::Segment FrameRing::segment(const Round& round, int index) const {
  const int64_t m = group_.size();
  const int64_t s = (index % m + m) % m;
  const int64_t groups = (round.count + kScaleGroup - 1) / kScaleGroup;
  const int64_t begin = std::min(round.count, s * groups / m * kScaleGroup);
  const int64_t end = std::min(round.count, (s + 1) * groups / m * kScaleGroup);
  return {.first = round.first + begin, .count = end - begin};
}

wire::Envelope FrameRing::envelope(const Slot& slot, int distance) const {
  return {.peer = group_.neighbour(distance),
          .tag = kFirstTag + static_cast<int>(slot.round % kNumSlots),
          .kind = wire::TrafficKind::weights,
          .what = "weight average"};
}

void FrameRing::encode(const Round& round,
                       const Segment& part,
                       double factor,
                       std::vector<std::byte>& to) {
  const RingBuffer& buffer = buffers_[round.buffer];
  const auto first = static_cast<size_t>(part.first), count = static_cast<size_t>(part.count);
  const std::span<float> values = buffer.values.subspan(first, count);
  if (factor != 1) {
    for (float& value : values) value *= static_cast<float>(factor);
  }
  const GroupedBytes bytes = grouped_bytes(buffer.format, part.count);
  to.resize(static_cast<size_t>(bytes.group_bytes + bytes.rest_bytes));
  const auto encode_rows = [&](int64_t rows, int64_t width, int64_t skipped, View frame) {
    if (rows == 0 || width == 0) return;
    const uint64_t position = static_cast<uint64_t>(part.first + skipped);
    backend_->encode_frame(
        buffer.format,
        {.mode = buffer.rounding,
         .seed = derive_seed(seed_, round.buffer, static_cast<uint64_t>(group_.index), position)},
        {values.data() + skipped, DType::f32, {rows, width}},
        frame,
        *stream_);
  };
  encode_rows(bytes.groups, kScaleGroup, 0, u8_view(to.data(), bytes.group_bytes));
  encode_rows(1,
              bytes.rest,
              bytes.groups * kScaleGroup,
              u8_view(to.data() + bytes.group_bytes, bytes.rest_bytes));
  if (buffer.residual.empty()) return;
  // The partial sum itself is not needed any more.
  const std::span<float> residual = buffer.residual.subspan(first, count);
  std::copy(values.begin(), values.end(), residual.begin());
  decode(round, part, to, Write::overwrite);
  const auto inverse = static_cast<float>(1 / factor);
  for (size_t i = 0; i < count; ++i) residual[i] = (residual[i] - values[i]) * inverse;
}

void FrameRing::decode(const Round& round,
                       const Segment& part,
                       std::vector<std::byte>& from,
                       Write write) {
  const RingBuffer& buffer = buffers_[round.buffer];
  float* values = buffer.values.data() + part.first;
  const GroupedBytes bytes = grouped_bytes(buffer.format, part.count);
  if (bytes.groups > 0) {
    backend_->decode_frame(buffer.format,
                           u8_view(from.data(), bytes.group_bytes),
                           {values, DType::f32, {bytes.groups, kScaleGroup}},
                           write,
                           *stream_);
  }
  if (bytes.rest > 0) {
    backend_->decode_frame(buffer.format,
                           u8_view(from.data() + bytes.group_bytes, bytes.rest_bytes),
                           {values + bytes.groups * kScaleGroup, DType::f32, {1, bytes.rest}},
                           write,
                           *stream_);
  }
}

/// Hop h of the reduce-scatter sends segment index - h and receives the one before it; hop k of the
/// all-gather, which follows, sends segment index + 1 - k, as it was received.
void FrameRing::post(Slot& slot) {
  const Round& round = rounds_[slot.round];
  if (slot.hop < group_.size() - 1) {
    encode(round, segment(round, group_.index - slot.hop), 1, slot.outgoing);
  }
  const Segment coming = segment(round, group_.index - slot.hop - 1);
  slot.incoming.resize(
      static_cast<size_t>(total_bytes(buffers_[round.buffer].format, coming.count)));
  wire::Transport& transport = *group_.transport;
  if (!slot.incoming.empty()) slot.receive = transport.receive(envelope(slot, -1), slot.incoming);
  if (!slot.outgoing.empty()) slot.send = transport.send(envelope(slot, 1), slot.outgoing);
  slot.posted = true;
}

void FrameRing::absorb(Slot& slot) {
  const Round& round = rounds_[slot.round];
  const int reduce_hops = group_.size() - 1;
  // m hops bring the same segment again: no case apart for the all-gather.
  const Segment came = segment(round, group_.index - slot.hop - 1);
  if (slot.hop >= reduce_hops) {
    decode(round, came, slot.incoming, Write::overwrite);
    std::swap(slot.incoming, slot.outgoing);
    return;
  }
  decode(round, came, slot.incoming, Write::accumulate);
  if (slot.hop < reduce_hops - 1) return;
  encode(round, came, factor_, slot.outgoing);
  decode(round, came, slot.outgoing, Write::overwrite);
}

/// @return whether all rounds of the slot are done
bool FrameRing::advance(Slot& slot) {
  while (slot.round < rounds_.size()) {
    if (!slot.posted) post(slot);
    if (slot.receive && slot.receive->test()) slot.receive.reset();
    if (slot.send && slot.send->test()) slot.send.reset();
    if (slot.receive || slot.send) return false;
    absorb(slot);
    slot.posted = false;
    ++hops_done_;
    if (++slot.hop == 2 * (group_.size() - 1)) {
      slot.hop = 0;
      slot.round += kNumSlots;
    }
  }
  return true;
}

bool FrameRing::poll() {
  if (rounds_.empty()) return true;
  bool done = true;
  for (Slot& slot : slots_) done = advance(slot) && done;
  if (done) {
    rounds_.clear();
    buffers_.clear();
  }
  return done;
}

void FrameRing::finish() {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kPatience{500};
  Clock::time_point last_progress = Clock::now();
  int64_t hops = hops_done_;
  while (!poll()) {
    const Clock::time_point start = Clock::now();
    if (hops != hops_done_) last_progress = start;
    hops = hops_done_;
    check_deadline(std::chrono::duration<double>(start - last_progress).count());
    // All slots must go on, so none is waited for long.
    for (Slot& slot : slots_) {
      wire::Transfer* pending = slot.receive ? slot.receive.get() : slot.send.get();
      if (pending == nullptr) continue;
      pending->wait_for(kPatience);
      break;
    }
    group_.transport->add_wait_seconds(std::chrono::duration<double>(Clock::now() - start).count());
  }
}

void FrameRing::check_deadline(double waited) {
  if (waited < group_.timeout.count()) return;
  for (const Slot& slot : slots_) {
    if (!slot.receive && !slot.send) continue;
    const wire::Envelope late = envelope(slot, slot.receive ? -1 : 1);
    throw Error(ErrorKind::wire,
                fmt::format("rank {} waited {:.1f} s for rank {} ({}, tag {})",
                            group_.transport->rank(),
                            group_.timeout.count(),
                            late.peer,
                            late.what,
                            late.tag));
  }
}

}  // namespace subring::sync
