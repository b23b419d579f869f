#include "subring/attention/angle_exchange.hpp"

#include <algorithm>

namespace subring::attention {
namespace {

// Two tags a chunk, above the four that blocks have: of at most 4096 chunks (mesh), so that both
// fit below the tags of weights and collectives.
constexpr int kAngleTags = 17000;

/// The [2, k] angles of one owned chunk.
template <typename AnyView>
AnyView angles_at(AnyView theta, int64_t index) {
  return theta.rows(index, 1).reshape({theta.shape[1], theta.shape[2]});
}

}  // namespace

void AngleExchange::set_chunks(const wire::Group& group, const ring::ChunkMap& map) {
  group_ = group;
  map_ = map;
  owned_ = map.chunks_of(group.index);
}

int64_t AngleExchange::index_of(int chunk) const {
  const auto found = std::lower_bound(owned_.begin(), owned_.end(), chunk);
  return found != owned_.end() && *found == chunk ? found - owned_.begin() : -1;
}

void AngleExchange::wait(wire::Transfer& transfer, const wire::Envelope& envelope) {
  wire::wait(transfer, envelope, *group_.transport, group_.timeout, progress_);
}

wire::Envelope AngleExchange::envelope(wire::TrafficKind kind, int chunk, int peer_chunk) const {
  const int peer = map_.owner[static_cast<size_t>(peer_chunk)];
  const bool forward = kind == wire::TrafficKind::kv_forward;
  return {group_.ranks[static_cast<size_t>(peer)],
          kAngleTags + 2 * chunk + (forward ? 0 : 1),
          kind,
          forward ? "angles" : "angle gradients"};
}

void AngleExchange::forward(codec::BlockCodec& codec,
                            ConstView means,
                            ChunkRange chunks,
                            View theta,
                            AngleTransit& transit,
                            Stream& stream) {
  if (source_ == AngleSource::chunk) {
    for (int64_t i = chunks.first; i < chunks.end(); ++i) {
      codec.projection().angles_forward(means.rows(i, 1), angles_at(theta, i), stream);
    }
    return;
  }
  constexpr auto kKind = wire::TrafficKind::kv_forward;
  for (int64_t i = chunks.first; i < chunks.end(); ++i) {
    const int next = owned_[static_cast<size_t>(i)] + 1;
    if (next == map_.num_chunks()) continue;
    const int64_t here = index_of(next);
    const View target = here >= 0 ? angles_at(theta, here) : angles_at(transit.memory, i);
    codec.projection().angles_forward(means.rows(i, 1), target, stream);
    if (here >= 0) continue;
    stream.synchronize();
    const wire::Envelope to = envelope(kKind, next, next);
    transit.sends.emplace_back(to, group_.transport->send(to, target.bytes()));
  }
  for (int64_t i = chunks.first; i < chunks.end(); ++i) {
    const int chunk = owned_[static_cast<size_t>(i)];
    if (chunk == 0) codec.projection().angles_forward({}, angles_at(theta, i), stream);
    if (chunk == 0 || index_of(chunk - 1) >= 0) continue;
    const wire::Envelope from = envelope(kKind, chunk, chunk - 1);
    const auto transfer = group_.transport->receive(from, angles_at(theta, i).bytes());
    wait(*transfer, from);
  }
}

void AngleExchange::backward(codec::BlockCodec& codec,
                             ConstView means,
                             ChunkRange chunks,
                             ConstView d_theta,
                             View d_means,
                             AngleTransit& transit,
                             Stream& stream) {
  if (source_ == AngleSource::chunk) {
    for (int64_t i = chunks.first; i < chunks.end(); ++i) {
      codec.projection().angles_backward(
          means.rows(i, 1), angles_at(d_theta, i), d_means.rows(i, 1), stream);
    }
    return;
  }
  constexpr auto kKind = wire::TrafficKind::kv_backward;
  stream.synchronize();
  for (int64_t i = chunks.end() - 1; i >= chunks.first; --i) {
    const int chunk = owned_[static_cast<size_t>(i)];
    const int64_t previous = chunk == 0 ? -1 : index_of(chunk - 1);
    if (chunk == 0) {
      codec.projection().angles_backward({}, angles_at(d_theta, i), {}, stream);
    } else if (previous >= 0) {
      codec.projection().angles_backward(
          means.rows(previous, 1), angles_at(d_theta, i), d_means.rows(previous, 1), stream);
    } else {
      const wire::Envelope to = envelope(kKind, chunk, chunk - 1);
      transit.sends.emplace_back(to, group_.transport->send(to, angles_at(d_theta, i).bytes()));
    }
  }
  for (int64_t i = chunks.end() - 1; i >= chunks.first; --i) {
    const int next = owned_[static_cast<size_t>(i)] + 1;
    if (next == map_.num_chunks() || index_of(next) >= 0) continue;
    const wire::Envelope from = envelope(kKind, next, next);
    const View landing = angles_at(transit.memory, i);
    const auto transfer = group_.transport->receive(from, landing.bytes());
    wait(*transfer, from);
    codec.projection().angles_backward(means.rows(i, 1), landing, d_means.rows(i, 1), stream);
  }
}

void AngleExchange::finish(AngleTransit& transit) {
  for (auto& [envelope, transfer] : transit.sends) {
    wait(*transfer, envelope);
  }
  transit.sends.clear();
}

}  // namespace subring::attention
