#include "subring/attention/angle_exchange.hpp"

#include <algorithm>

namespace subring::attention {
namespace {

// Two tags a chunk, as blocks have: of at most 4096 chunks (mesh), so that both fit below the tags
// of collectives.
constexpr int kAngleTags = 16000;

struct Pending {
  wire::Envelope envelope;
  std::unique_ptr<wire::Transfer> transfer;
};

/// The [2, k] angles of one owned chunk.
template <typename AnyView>
AnyView angles_at(AnyView theta, int64_t index) {
  return theta.rows(index, 1).reshape({theta.shape[1], theta.shape[2]});
}

void angles_forward(codec::BlockCodec& codec, ConstView mean, View theta, Stream& stream) {
  codec.key().angles_forward(mean, theta.rows(0, 1), stream);
  codec.value().angles_forward(mean, theta.rows(1, 1), stream);
}

void angles_backward(
    codec::BlockCodec& codec, ConstView mean, ConstView d_theta, View d_mean, Stream& stream) {
  codec.key().angles_backward(mean, d_theta.rows(0, 1), d_mean, stream);
  codec.value().angles_backward(mean, d_theta.rows(1, 1), d_mean, stream);
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

void AngleExchange::forward(
    codec::BlockCodec& codec, ConstView means, View theta, View transit, Stream& stream) {
  if (source_ == AngleSource::chunk) {
    for (int64_t i = 0; i < means.shape[0]; ++i) {
      angles_forward(codec, means.rows(i, 1), angles_at(theta, i), stream);
    }
    return;
  }
  std::vector<Pending> transfers;
  const auto envelope = [&](int chunk, int peer_chunk) {
    const int peer = map_.owner[static_cast<size_t>(peer_chunk)];
    return wire::Envelope{group_.ranks[static_cast<size_t>(peer)],
                          kAngleTags + 2 * chunk,
                          wire::TrafficKind::kv_forward,
                          "angles"};
  };
  for (int chunk = 0; chunk < map_.num_chunks(); ++chunk) {
    const int64_t here = index_of(chunk);
    const int64_t source = chunk == 0 ? -1 : index_of(chunk - 1);
    if (chunk == 0) {
      if (here >= 0) angles_forward(codec, {}, angles_at(theta, here), stream);
    } else if (source >= 0) {
      const View target = angles_at(here >= 0 ? theta : transit, here >= 0 ? here : source);
      angles_forward(codec, means.rows(source, 1), target, stream);
      if (here < 0) {
        const auto to = envelope(chunk, chunk);
        transfers.push_back({to, group_.transport->send(to, target.bytes())});
      }
    } else if (here >= 0) {
      const auto from = envelope(chunk, chunk - 1);
      transfers.push_back({from, group_.transport->receive(from, angles_at(theta, here).bytes())});
    }
  }
  for (Pending& pending : transfers) {
    wire::wait(*pending.transfer, pending.envelope, *group_.transport, group_.timeout);
  }
}

void AngleExchange::backward(codec::BlockCodec& codec,
                             ConstView means,
                             ConstView d_theta,
                             View d_means,
                             View transit,
                             Stream& stream) {
  if (source_ == AngleSource::chunk) {
    for (int64_t i = 0; i < means.shape[0]; ++i) {
      angles_backward(codec, means.rows(i, 1), angles_at(d_theta, i), d_means.rows(i, 1), stream);
    }
    return;
  }
  std::vector<Pending> sends;
  const auto envelope = [&](int chunk, int peer_chunk) {
    const int peer = map_.owner[static_cast<size_t>(peer_chunk)];
    return wire::Envelope{group_.ranks[static_cast<size_t>(peer)],
                          kAngleTags + 2 * chunk + 1,
                          wire::TrafficKind::kv_backward,
                          "angle gradients"};
  };
  for (int chunk = 0; chunk < map_.num_chunks(); ++chunk) {
    const int64_t here = index_of(chunk);
    const int64_t source = chunk == 0 ? -1 : index_of(chunk - 1);
    if (here >= 0 && chunk > 0 && source < 0) {
      const auto to = envelope(chunk, chunk - 1);
      sends.push_back({to, group_.transport->send(to, angles_at(d_theta, here).bytes())});
    }
  }
  for (int chunk = 0; chunk < map_.num_chunks(); ++chunk) {
    const int64_t here = index_of(chunk);
    const int64_t source = chunk == 0 ? -1 : index_of(chunk - 1);
    if (chunk == 0 && here >= 0) {
      angles_backward(codec, {}, angles_at(d_theta, here), {}, stream);
    }
    if (source < 0) continue;
    ConstView gradient = here >= 0 ? angles_at(d_theta, here) : angles_at(transit, source);
    if (here < 0) {
      const auto from = envelope(chunk, chunk);
      const View landing = angles_at(transit, source);
      auto transfer = group_.transport->receive(from, landing.bytes());
      wire::wait(*transfer, from, *group_.transport, group_.timeout);
      gradient = landing;
    }
    angles_backward(codec, means.rows(source, 1), gradient, d_means.rows(source, 1), stream);
  }
  for (Pending& send : sends) {
    wire::wait(*send.transfer, send.envelope, *group_.transport, group_.timeout);
  }
}

}  // namespace subring::attention
