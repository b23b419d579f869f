#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "subring/wire/transport.hpp"

namespace subring::wire {

/// Bytes by TrafficKind.
using TrafficBytes = std::array<int64_t, kNumTrafficKinds>;

/// Transport that counts what this rank sends; payload bytes, by kind. Wraps another transport.
/// With set_trace() it records each transfer, from when it was posted to when it was seen done.
class MeteredTransport : public Transport {
 public:
  explicit MeteredTransport(Transport& inner) : inner_(inner) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int num_local_ranks() const override { return inner_.num_local_ranks(); }
  std::unique_ptr<Transfer> send(const Envelope& to, std::span<const std::byte> bytes) override;
  std::unique_ptr<Transfer> receive(const Envelope& from, std::span<std::byte> bytes) override;
  void abort(std::string_view cause, int exit_code) noexcept override {
    inner_.abort(cause, exit_code);
  }

  /// Sent since the last reset.
  const TrafficBytes& sent_bytes() const { return sent_bytes_; }
  void reset() { sent_bytes_ = {}; }
  /// Returns the counts and starts anew; put_back() adds them again. Work between the two is
  /// counted apart.
  TrafficBytes take() { return std::exchange(sent_bytes_, {}); }
  void put_back(const TrafficBytes& bytes) {
    for (size_t kind = 0; kind < bytes.size(); ++kind) sent_bytes_[kind] += bytes[kind];
  }

 private:
  Transport& inner_;
  TrafficBytes sent_bytes_{};
};

}  // namespace subring::wire
