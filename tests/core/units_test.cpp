#include "subring/core/units.hpp"

#include "support/catch.hpp"

using namespace subring;

TEST_CASE("bandwidths are decimal bits per second") {
  CHECK(parse_bandwidth("300Mbps") == 3e8);
  CHECK(parse_bandwidth("1.5Gbps") == 1.5e9);
  CHECK(parse_bandwidth("100Gbps") == 1e11);
  CHECK(parse_bandwidth("100 Gbps") == 1e11);
  CHECK(parse_bandwidth("2Tbps") == 2e12);
  CHECK(parse_bandwidth("56kbps") == 56e3);
  CHECK(parse_bandwidth("9600bps") == 9600);
  CHECK(parse_bandwidth("1e3Mbps") == 1e9);
}

TEST_CASE("what is no bandwidth is refused") {
  for (const char* text :
       {"",        "Mbps",      "300",       "0Mbps",    "-300Mbps",  "-0Mbps",   "300mbps",
        "300MBps", "300Mbit",   "300Mbps ",  " 300Mbps", "300  Mbps", "300Mbpss", "infMbps",
        "nanMbps", "1e999Mbps", "1e300Tbps", "0x10Mbps", "3,5Mbps",   "none",     "20ms"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bandwidth(text));
  }
}

TEST_CASE("durations are read in seconds") {
  CHECK(parse_duration("20ms") == 0.02);
  CHECK(parse_duration("1.5s") == 1.5);
  CHECK(parse_duration("200us") == 200e-6);
  CHECK(parse_duration("50 ns") == 50e-9);
  CHECK(parse_duration("0s") == 0.0);
  for (const char* text :
       {"", "ms", "20", "-1ms", "20MS", "20m", "infs", "nans", "1.5.2s", "5Gbps"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_duration(text));
  }
}

TEST_CASE("units are written as they are read") {
  for (const char* text :
       {"300Mbps", "1.5Gbps", "100Gbps", "2Tbps", "1234Tbps", "56kbps", "1bps"}) {
    CHECK(format_bandwidth(parse_bandwidth(text).value()) == text);
  }
  CHECK(format_bandwidth(0.5) == "0.5bps");
  CHECK(format_bandwidth(999.5e3) == "999.5kbps");
  for (const char* text : {"20ms", "1.5s", "200us", "50ns", "0s", "3600s"}) {
    CHECK(format_duration(parse_duration(text).value()) == text);
  }
  CHECK(format_duration(0.25e-9) == "0.25ns");
}
