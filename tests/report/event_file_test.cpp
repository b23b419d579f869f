#include "subring/report/event_file.hpp"

#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "subring/core/error.hpp"
#include "support/catch.hpp"
#include "support/temporary_directory.hpp"

using namespace subring;
using namespace subring::report;
using namespace std::string_literals;

namespace {

template <typename Number>
Number number_at(const std::string& bytes, size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof number);
  return number;
}

/// Payloads of a file of records, whose frames must be right.
std::vector<std::string> read_records(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  std::vector<std::string> payloads;
  for (size_t at = 0; at < bytes.size();) {
    const auto length = number_at<uint64_t>(bytes, at);
    payloads.push_back(bytes.substr(at + 12, length));
    REQUIRE(bytes.substr(at, length + 16) == frame_record(payloads.back()));
    at += length + 16;
  }
  return payloads;
}

}  // namespace

TEST_CASE("crc32c has the values of RFC 3720, appendix B.4") {
  std::string ascending, descending;
  for (char i = 0; i < 32; ++i) {
    ascending += i;
    descending += static_cast<char>(31 - i);
  }
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283U);
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AAU);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43U);
  CHECK(crc32c(ascending) == 0x46DD794EU);
  CHECK(crc32c(descending) == 0x113FDB5CU);
}

TEST_CASE("a record is framed as TensorFlow frames it") {
  // The first 12 bytes of every event file that TensorFlow writes: its first event has 24 bytes.
  const std::string record = frame_record(std::string(24, 'x'));
  CHECK(record.substr(0, 12) == "\x18\0\0\0\0\0\0\0\xA3\x7FK\""s);
  CHECK(record.substr(12, 24) == std::string(24, 'x'));
  CHECK(record.size() == 40);
}

TEST_CASE("an event file holds a version, then scalars by step") {
  const test::TemporaryDirectory directory;
  EventFile file(directory.path());
  CHECK(file.path().filename().string().find("events.out.tfevents.") == 0);
  const Scalar scalars[] = {{"train/loss", 1.5}, {"lr", 0.25}};
  file.write(300, scalars);

  const std::vector<std::string> events = read_records(file.path());
  REQUIRE(events.size() == 2);
  CHECK(events[0].substr(9) == "\x1A\x0D"s + "brain.Event:2");
  for (const std::string& event : events) {
    CHECK(event[0] == '\x09');
    CHECK(number_at<double>(event, 1) > 1.7e9);  // seconds since 1970
  }
  // step 300 = 0xAC 0x02; summary of 30 bytes: values of 17 and of 9 bytes, each a tag and a float
  CHECK(events[1].substr(9) == "\x10\xAC\x02\x2A\x1E"s +
                                   "\x0A\x11\x0A\x0Atrain/loss\x15\0\0\xC0\x3F"s +
                                   "\x0A\x09\x0A\x02lr\x15\0\0\x80\x3E"s);
}

TEST_CASE("an event file that cannot be created is named") {
  try {
    EventFile file("/nowhere");
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::io);
    CHECK(std::string(error.what()).find("/nowhere/events.out.tfevents.") == 0);
  }
}
