#include "subring/wire/group.hpp"

#include <algorithm>
#include <array>

namespace subring::wire {

namespace {

constexpr int kReduceTag = kFirstCollectiveTag;
constexpr int kBroadcastTag = kFirstCollectiveTag + 1;
constexpr int kBarrierTag = kFirstCollectiveTag + 2;
constexpr int kGatherTag = kFirstCollectiveTag + 3;
// Large enough to hide latencies of 20 ms at 1 Gbps (2.5 MB in flight), small enough as scratch.
constexpr size_t kPieceBytes = size_t{4} << 20;

/// A started transfer together with what wait() needs to name it. Default: nothing to wait for.
class Pending {
 public:
  Pending() = default;
  Pending(const Group& group, const Envelope& envelope, std::unique_ptr<Transfer> transfer)
      : group_(&group), envelope_(envelope), transfer_(std::move(transfer)) {}

  void wait() {
    if (!transfer_) return;
    wire::wait(*transfer_, envelope_, *group_->transport, group_->timeout);
    transfer_.reset();
  }

 private:
  const Group* group_ = nullptr;
  Envelope envelope_;
  std::unique_ptr<Transfer> transfer_;
};

Pending start_send(const Group& group, const Envelope& to, std::span<const std::byte> bytes) {
  return {group, to, group.transport->send(to, bytes)};
}

Pending start_receive(const Group& group, const Envelope& from, std::span<std::byte> bytes) {
  return {group, from, group.transport->receive(from, bytes)};
}

/// Piece `index` of `values` cut into pieces of `length`; the last may be shorter.
template <typename T>
std::span<T> piece_of(std::span<T> values, size_t index, size_t length) {
  const size_t first = index * length;
  return values.subspan(first, std::min(length, values.size() - first));
}

size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

/// Ring all-reduce of one buffer by one member.
template <typename T>
class RingReduction {
 public:
  RingReduction(const Group& group, std::span<T> values, TrafficKind kind)
      : group_(group),
        values_(values),
        next_{group.neighbour(1), kReduceTag, kind, "all-reduce segment"},
        previous_{group.neighbour(-1), kReduceTag, kind, "all-reduce segment"} {
    const size_t longest = divide_up(values.size(), static_cast<size_t>(group.size()));
    piece_length_ = std::min(longest, kPieceBytes / sizeof(T));
    for (auto& scratch : scratch_) scratch.resize(piece_length_);
  }

  void run() {
    const int num_ranks = group_.size();
    // After step k this member holds the sum of k + 2 members in segment index - k - 1.
    for (int step = 0; step < num_ranks - 1; ++step) {
      reduce(segment(group_.index - step), segment(group_.index - step - 1));
    }
    for (int step = 0; step < num_ranks - 1; ++step) {
      gather(segment(group_.index + 1 - step), segment(group_.index - step));
    }
  }

 private:
  std::span<T> segment(int index) const {
    const auto num_ranks = static_cast<size_t>(group_.size());
    const size_t s = (static_cast<size_t>(index) + 2 * num_ranks) % num_ranks;
    const size_t first = s * values_.size() / num_ranks;
    return values_.subspan(first, (s + 1) * values_.size() / num_ranks - first);
  }

  /// Sends `outgoing` on while adding what arrives to `incoming`; two pieces under way each.
  void reduce(std::span<T> outgoing, std::span<T> incoming) {
    if (piece_length_ == 0) return;
    const size_t num_sends = divide_up(outgoing.size(), piece_length_);
    const size_t num_receives = divide_up(incoming.size(), piece_length_);
    std::array<Pending, 2> sends;
    std::array<Pending, 2> receives;
    const auto post_receive = [&](size_t p) {
      if (p >= num_receives) return;
      const auto piece = piece_of(incoming, p, piece_length_);
      const auto room = std::span<T>(scratch_[p % 2]).first(piece.size());
      receives[p % 2] = start_receive(group_, previous_, std::as_writable_bytes(room));
    };
    post_receive(0);
    for (size_t p = 0; p < std::max(num_sends, num_receives); ++p) {
      post_receive(p + 1);
      if (p < num_sends) {
        sends[p % 2].wait();
        const auto piece = piece_of(outgoing, p, piece_length_);
        sends[p % 2] = start_send(group_, next_, std::as_bytes(piece));
      }
      if (p < num_receives) {
        receives[p % 2].wait();
        add(scratch_[p % 2], piece_of(incoming, p, piece_length_));
      }
    }
    for (Pending& send : sends) send.wait();
  }

  static void add(const std::vector<T>& from, std::span<T> to) {
    for (size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  }

  void gather(std::span<T> outgoing, std::span<T> incoming) {
    Pending receive = start_receive(group_, previous_, std::as_writable_bytes(incoming));
    Pending send = start_send(group_, next_, std::as_bytes(outgoing));
    receive.wait();
    send.wait();
  }

  const Group& group_;
  std::span<T> values_;
  Envelope next_;
  Envelope previous_;
  size_t piece_length_ = 0;
  std::array<std::vector<T>, 2> scratch_;
};

}  // namespace

int Group::neighbour(int distance) const {
  const int wrapped = ((index + distance) % size() + size()) % size();
  return ranks[static_cast<size_t>(wrapped)];
}

void all_reduce_sum(const Group& group, std::span<float> values, TrafficKind kind) {
  if (group.size() > 1) RingReduction<float>(group, values, kind).run();
}

void all_reduce_sum(const Group& group, std::span<double> values, TrafficKind kind) {
  if (group.size() > 1) RingReduction<double>(group, values, kind).run();
}

void broadcast(const Group& group, int root, std::span<std::byte> bytes, TrafficKind kind) {
  const int num_ranks = group.size();
  SUBRING_CHECK(root >= 0 && root < num_ranks,
                ErrorKind::wire,
                "broadcast from member {} of {} ranks",
                root,
                num_ranks);
  const int place = (group.index - root + num_ranks) % num_ranks;  // in the chain from the root
  const bool receives = place > 0;
  const bool sends = place < num_ranks - 1;
  const Envelope previous{group.neighbour(-1), kBroadcastTag, kind, "broadcast"};
  const Envelope next{group.neighbour(1), kBroadcastTag, kind, "broadcast"};

  const size_t num_pieces = divide_up(bytes.size(), kPieceBytes);
  std::array<Pending, 2> incoming;
  std::array<Pending, 2> outgoing;
  const auto post_receive = [&](size_t p) {
    if (!receives || p >= num_pieces) return;
    incoming[p % 2] = start_receive(group, previous, piece_of(bytes, p, kPieceBytes));
  };
  post_receive(0);
  for (size_t p = 0; p < num_pieces; ++p) {
    post_receive(p + 1);
    incoming[p % 2].wait();
    if (!sends) continue;
    outgoing[p % 2].wait();
    outgoing[p % 2] = start_send(group, next, piece_of(bytes, p, kPieceBytes));
  }
  for (Pending& send : outgoing) send.wait();
}

std::vector<std::string> gather_to_first(const Group& group,
                                         std::string_view text,
                                         TrafficKind kind) {
  const auto envelope = [&](int index) {
    return Envelope{group.ranks[static_cast<size_t>(index)], kGatherTag, kind, "gathered text"};
  };
  uint64_t length = text.size();
  if (group.index > 0) {
    start_send(group, envelope(0), std::as_bytes(std::span(&length, 1))).wait();
    start_send(group, envelope(0), std::as_bytes(std::span(text))).wait();
    return {};
  }
  std::vector<std::string> texts{std::string(text)};
  for (int i = 1; i < group.size(); ++i) {
    start_receive(group, envelope(i), std::as_writable_bytes(std::span(&length, 1))).wait();
    std::string& other = texts.emplace_back(length, '\0');
    start_receive(group, envelope(i), std::as_writable_bytes(std::span(other))).wait();
  }
  return texts;
}

void barrier(const Group& group) {
  for (int distance = 1; distance < group.size(); distance *= 2) {
    const Envelope to{group.neighbour(distance), kBarrierTag, TrafficKind::other, "barrier"};
    const Envelope from{group.neighbour(-distance), kBarrierTag, TrafficKind::other, "barrier"};
    Pending receive = start_receive(group, from, {});
    Pending send = start_send(group, to, {});
    receive.wait();
    send.wait();
  }
}

}  // namespace subring::wire
