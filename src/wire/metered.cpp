#include "subring/wire/metered.hpp"

namespace subring::wire {

std::unique_ptr<Transfer> MeteredTransport::send(const Envelope& to,
                                                 std::span<const std::byte> bytes) {
  auto transfer = inner_.send(to, bytes);
  sent_bytes_[static_cast<size_t>(to.kind)] += static_cast<int64_t>(bytes.size());
  return transfer;
}

std::unique_ptr<Transfer> MeteredTransport::receive(const Envelope& from,
                                                    std::span<std::byte> bytes) {
  return inner_.receive(from, bytes);
}

}  // namespace subring::wire
