#include "subring/wire/metered.hpp"

namespace subring::wire {
namespace {

/// Records when a transfer was posted, and when it was seen to be done.
class TracedTransfer : public Transfer {
 public:
  TracedTransfer(std::unique_ptr<Transfer> inner, Trace& trace, const TraceEvent& event)
      : inner_(std::move(inner)), trace_(trace), event_(event) {
    event_.start_seconds = trace_.now_seconds();
  }
  bool test() override { return record(inner_->test()); }
  bool wait_for(std::chrono::microseconds patience) override {
    return record(inner_->wait_for(patience));
  }

 private:
  bool record(bool done) {
    if (done && !recorded_) {
      event_.end_seconds = trace_.now_seconds();
      trace_.add(event_);
      recorded_ = true;
    }
    return done;
  }

  std::unique_ptr<Transfer> inner_;
  Trace& trace_;
  TraceEvent event_;
  bool recorded_ = false;
};

std::unique_ptr<Transfer> traced(std::unique_ptr<Transfer> transfer,
                                 Trace* trace,
                                 TraceTrack track,
                                 const Envelope& envelope,
                                 size_t num_bytes) {
  // What carries nothing is a barrier's.
  if (trace == nullptr || num_bytes == 0) return transfer;
  const TraceEvent event{
      .name = envelope.what,
      .track = track,
      .detail = {.peer = envelope.peer, .bytes = static_cast<int64_t>(num_bytes)}};
  return std::make_unique<TracedTransfer>(std::move(transfer), *trace, event);
}

}  // namespace

std::unique_ptr<Transfer> MeteredTransport::send(const Envelope& to,
                                                 std::span<const std::byte> bytes) {
  auto transfer = inner_.send(to, bytes);
  sent_bytes_[static_cast<size_t>(to.kind)] += static_cast<int64_t>(bytes.size());
  return traced(std::move(transfer), trace(), TraceTrack::send, to, bytes.size());
}

std::unique_ptr<Transfer> MeteredTransport::receive(const Envelope& from,
                                                    std::span<std::byte> bytes) {
  return traced(inner_.receive(from, bytes), trace(), TraceTrack::receive, from, bytes.size());
}

}  // namespace subring::wire
