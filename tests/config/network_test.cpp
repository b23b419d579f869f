#include <algorithm>

#include "config/support.hpp"
#include "support/catch.hpp"

namespace subring::config {

namespace {

std::string network_error(const std::string& section) {
  return error_of(kMinimal + "network: {" + section + "}\n");
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a network is read, and written back as it was read") {
  const Config c = load_text(kMinimal + R"(
network:
  bandwidth: 300Mbps
  latency: 20ms
  jitter: 200us
  ranks:
    - {rank: 2, up: 30Mbps, down: 100 Mbps}
    - rank: 0
      down: none
  links: [{from: 0, to: 1, bandwidth: 1.5Gbps, latency: 0s}, {to: 0, from: 1, latency: 1.5s}]
)");
  CHECK(c.network.emulated());
  CHECK(c.network.bandwidth == 3e8);
  CHECK(c.network.latency_seconds == 0.02);
  CHECK(c.network.jitter_seconds == 2e-4);
  REQUIRE(c.network.ranks.size() == 2);
  CHECK(c.network.ranks[0].rank == 2);
  CHECK(c.network.ranks[0].up == 3e7);
  CHECK(c.network.ranks[0].down == 1e8);
  CHECK_FALSE(c.network.ranks[1].up.has_value());
  CHECK(c.network.ranks[1].down == wire::kUnlimited);
  REQUIRE(c.network.links.size() == 2);
  CHECK(c.network.links[0].from == 0);
  CHECK(c.network.links[0].to == 1);
  CHECK(c.network.links[0].bandwidth == 1.5e9);
  CHECK(c.network.links[0].latency_seconds == 0.0);
  CHECK_FALSE(c.network.links[1].bandwidth.has_value());
  CHECK(c.network.links[1].latency_seconds == 1.5);

  const std::string json = to_json(c);
  INFO(json);
  CHECK(contains(json, R"("bandwidth":"300Mbps","latency":"20ms","jitter":"200us")"));
  CHECK(contains(json, R"([{"rank":2,"up":"30Mbps","down":"100Mbps"},{"rank":0,"down":"none"}])"));
  CHECK(to_json(load_text(json)) == json);
}

TEST_CASE("without a network section nothing is emulated") {
  CHECK_FALSE(load_text(kMinimal).network.emulated());
  CHECK_FALSE(
      load_text(kMinimal + "network: {bandwidth: none, latency: 0ms}\n").network.emulated());
}

TEST_CASE("a network can be set by overrides") {
  const Config c = load_text(kMinimal,
                             {"network.bandwidth=300Mbps",
                              "network.latency=20ms",
                              "network.ranks=[{rank: 1, up: 10Mbps}]",
                              "network.links=[{from: 1, to: 0, latency: 1ms}]"});
  CHECK(c.network.bandwidth == 3e8);
  CHECK(c.network.latency_seconds == 0.02);
  CHECK(c.network.ranks.at(0).up == 1e7);
  CHECK(c.network.links.at(0).latency_seconds == 1e-3);
  CHECK(contains(error_of(kMinimal, {"network.bandwidth=300"}),
                 "--set: network.bandwidth: \"300\" is no bandwidth; must be a rate"));
}

TEST_CASE("what is no network is refused, and what would be right is said") {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"bandwidth: 300", "network.bandwidth: \"300\" is no bandwidth; must be a rate above 0"},
      {"bandwidth: 300mbps", "\"300mbps\" is no bandwidth; must be a rate above 0 in bits"},
      {"bandwidth: 0Mbps", "300Mbps or 1.5Gbps (units bps, kbps, Mbps, Gbps, Tbps), or none"},
      {"bandwidth: [1Mbps]", "a list is no bandwidth"},
      {"bandwidth: ~", "nothing (null) is no bandwidth"},
      {"latency: 20", "network.latency: \"20\" is no duration; must be a duration from 0 up"},
      {"latency: -1ms", "\"-1ms\" is no duration"},
      {"jitter: none", "network.jitter: \"none\" is no duration"},
      {"ranks: {rank: 1}", "network.ranks: a section (key: value) is no list; must be a list such"},
      {"ranks: [1]", "network.ranks: entry 1: \"1\" is no {name: value}; must be a list such as"},
      {"ranks: [{rank: 1, up: 1Mbps}, {up: 1Mbps}]", "entry 2: rank is missing; must be"},
      {"ranks: [{rank: 1}]", "entry 1: nothing is set; must be"},
      {"ranks: [{rank: -1, up: 1Mbps}]", "entry 1: rank: \"-1\" is out of range; must be"},
      {"ranks: [{rank: 1, up: fast}]", "entry 1: up: \"fast\" is no bandwidth; must be"},
      {"ranks: [{rank: 1, upp: 1Mbps}]", "entry 1: \"upp\" is no name; must be"},
      {"ranks: [{rank: 1, up: 1Mbps, up: 2Mbps}]", "entry 1: up is given twice; must be"},
      {"ranks: [{rank: 1, up: 1Mbps}, {rank: 1, down: 1Mbps}]", "rank 1 is given twice; keep one"},
      {"links: [{from: 1, latency: 1ms}]", "network.links: entry 1: to is missing; must be a list"},
      {"links: [{from: 1, to: 1, latency: 1ms}]", "from 1 to itself; must be two ranks"},
      {"links: [{from: 1, to: 0, latency: 1}]", "entry 1: latency: \"1\" is no duration; must be"},
      {"links: [{from: 1, to: 0, latency: 1s}, {from: 1, to: 0, latency: 2s}]",
       "from 1 to 0 is given twice; keep one"},
      {"bandwith: 1Mbps", "did you mean bandwidth?"},
  };
  for (const auto& [section, expected] : cases) {
    const std::string message = network_error(section);
    INFO(section << " -> " << message);
    CHECK(contains(message, "c.yaml:2: "));
    CHECK(contains(message, expected));
    CHECK_FALSE(contains(message, "\n"));
  }
}

TEST_CASE("a network names ranks that there are") {
  const auto check = [](const std::string& section, int num_ranks) -> std::string {
    try {
      check_config_for_ranks(load_text(kMinimal + "network: {" + section + "}\n"), num_ranks);
    } catch (const Error& error) {
      return error.what();
    }
    return "(accepted)";
  };
  CHECK(check("ranks: [{rank: 3, up: 1Mbps}]", 4) == "(accepted)");
  CHECK(contains(check("ranks: [{rank: 4, up: 1Mbps}]", 4),
                 "network.ranks: there is no rank 4 among 4; must be 0 to 3"));
  CHECK(contains(check("links: [{from: 0, to: 2, latency: 1ms}]", 2),
                 "network.links: there is no rank 2 among 2; must be 0 to 1"));
}

}  // namespace subring::config
