#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "subring/wire/link_clock.hpp"
#include "subring/wire/transport.hpp"

namespace subring::wire {

/// Transport over emulated links. Wraps another transport of ranks on one host: payloads travel
/// through that one as fast as it can, and a transfer is done when the emulated link has carried it
/// too. A send is done when its last byte has left the uplink, a receive when it has arrived.
///
/// The times come from one LinkClock in memory that the ranks share, and start at the sender's call
/// of send(); so the emulated transfer proceeds while ranks compute, without anyone calling, and
/// what a rank sees does not depend on when it looks. (A real transfer of a large message starts
/// when its receiver is ready too, so post receives early.) The bytes themselves still need the
/// inner transport's progress: test() and wait_for() of any transfer of this endpoint make it for
/// all. Messages of a rank to itself are not shaped.
///
/// Cost: some microseconds a call. Waits sleep, at most kLongestSleep at a time.
class ShapedTransport : public Transport {
 public:
  /// Called by all ranks of `inner`, which meet.
  /// @param seed  of the jitter
  /// @throws Error{config}  ranks on several hosts, too many of them
  /// @throws Error{wire}
  ShapedTransport(Transport& inner,
                  const NetworkOptions& network,
                  uint64_t seed,
                  std::chrono::duration<double> timeout);
  ~ShapedTransport() override;

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  int num_local_ranks() const override { return inner_.num_local_ranks(); }
  std::unique_ptr<Transfer> send(const Envelope& to, std::span<const std::byte> bytes) override;
  std::unique_ptr<Transfer> receive(const Envelope& from, std::span<std::byte> bytes) override;
  void abort(std::string_view cause, int exit_code) noexcept override {
    inner_.abort(cause, exit_code);
  }

  static constexpr std::chrono::microseconds kLongestSleep{2000};

 private:
  class ShapedTransfer;
  struct Links;
  enum class Side { sender, receiver };

  MessageKey next_key(Side side, const Envelope& envelope);
  void progress();

  Transport& inner_;
  std::unique_ptr<Links> links_;
  std::map<std::pair<int, int>, uint32_t> num_sent_, num_received_;  // by peer and tag
  std::vector<ShapedTransfer*> moving_;  // whose bytes the inner transport still carries
};

}  // namespace subring::wire
