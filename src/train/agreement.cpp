#include "subring/train/agreement.hpp"

#include <nlohmann/json.hpp>

namespace subring::train {
namespace {

using nlohmann::json;

/// All that must be the same on every rank.
json terms_of(const config::Config& config, int64_t num_tokens) {
  json terms = json::parse(config::to_json(config));
  for (const char* key : {"train", "validation"}) terms["data"].erase(key);
  terms.erase("threads");
  terms["tokens of data.train"] = num_tokens;
  return terms;
}

}  // namespace

void check_agreement(const wire::Group& world, const config::Config& config, int64_t num_tokens) {
  const json terms = terms_of(config, num_tokens);
  std::string first = terms.dump();
  int64_t length = static_cast<int64_t>(first.size());
  const auto share = [&](std::span<std::byte> bytes) {
    wire::broadcast(world, 0, bytes, wire::TrafficKind::other);
  };
  share(std::as_writable_bytes(std::span(&length, 1)));
  first.resize(static_cast<size_t>(length));
  share(std::as_writable_bytes(std::span(first)));

  const json expected = json::parse(first);
  const json differences = json::diff(expected, terms);
  if (differences.empty()) {
    // Nobody goes on (and writes files) before all agree: a rank that differs ends the others here.
    wire::barrier(world);
    return;
  }
  std::string key = differences.front().at("path").get<std::string>().substr(1);
  const json::json_pointer pointer(differences.front().at("path").get<std::string>());
  for (char& c : key) {
    if (c == '/') c = '.';
  }
  const auto value_in = [&](const json& all) {
    return all.contains(pointer) ? all.at(pointer).dump() : std::string("not there");
  };
  throw Error(ErrorKind::config,
              fmt::format("{} is {} on rank {} and {} on rank 0; all ranks need the same "
                          "configuration and data",
                          key,
                          value_in(terms),
                          world.index,
                          value_in(expected)));
}

}  // namespace subring::train
