#include "subring/report/event_file.hpp"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>

#include "subring/core/error.hpp"

namespace subring::report {
namespace {

constexpr std::array<uint32_t, 256> make_crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[byte] = crc;
  }
  return table;
}

/// So that a CRC over data that holds CRCs is no weaker: the format's rotation and constant.
uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U; }

template <typename Unsigned>
void append_little_endian(std::string& out, Unsigned value) {
  for (size_t i = 0; i < sizeof value; ++i) {
    out += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

// Protocol buffer fields: a key (number << 3 | wire type), then the value.
// https://protobuf.dev/programming-guides/encoding
void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

void append_int64(std::string& out, int field, int64_t value) {
  append_varint(out, static_cast<uint64_t>(field << 3));
  append_varint(out, static_cast<uint64_t>(value));
}

void append_double(std::string& out, int field, double value) {
  append_varint(out, static_cast<uint64_t>(field << 3 | 1));
  append_little_endian(out, std::bit_cast<uint64_t>(value));
}

void append_float(std::string& out, int field, float value) {
  append_varint(out, static_cast<uint64_t>(field << 3 | 5));
  append_little_endian(out, std::bit_cast<uint32_t>(value));
}

/// A string or a nested message.
void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_varint(out, static_cast<uint64_t>(field << 3 | 2));
  append_varint(out, bytes.size());
  out += bytes;
}

// Field numbers of event.proto and summary.proto.
constexpr int kEventWallTime = 1;
constexpr int kEventStep = 2;
constexpr int kEventFileVersion = 3;
constexpr int kEventSummary = 5;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1;
constexpr int kValueSimpleValue = 2;

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string file_name() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  return fmt::format(
      "events.out.tfevents.{:010d}.{}", static_cast<int64_t>(seconds_since_1970()), host);
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = make_crc_table();
  uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes)
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

std::string frame_record(std::string_view payload) {
  std::string record;
  append_little_endian(record, static_cast<uint64_t>(payload.size()));
  append_little_endian(record, masked_crc(record));
  record += payload;
  append_little_endian(record, masked_crc(payload));
  return record;
}

EventFile::EventFile(const std::filesystem::path& directory) : path_(directory / file_name()) {
  file_.open(path_, std::ios::binary | std::ios::app);
  SUBRING_CHECK(file_.good(), ErrorKind::io, "{}: cannot be opened for writing", path_.string());
  std::string event;
  append_double(event, kEventWallTime, seconds_since_1970());
  append_bytes(event, kEventFileVersion, "brain.Event:2");
  append(event);
}

void EventFile::write(int64_t step, std::span<const Scalar> scalars) {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_bytes(value, kValueTag, scalar.tag);
    append_float(value, kValueSimpleValue, static_cast<float>(scalar.value));
    append_bytes(summary, kSummaryValue, value);
  }
  std::string event;
  append_double(event, kEventWallTime, seconds_since_1970());
  append_int64(event, kEventStep, step);
  append_bytes(event, kEventSummary, summary);
  append(event);
}

void EventFile::append(std::string_view event) {
  const std::string record = frame_record(event);
  file_.write(record.data(), static_cast<std::streamsize>(record.size())).flush();
  SUBRING_CHECK(file_.good(), ErrorKind::io, "{}: write failed (disk full?)", path_.string());
}

}  // namespace subring::report
