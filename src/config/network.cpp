#include <algorithm>

#include "keys.hpp"
#include "subring/core/units.hpp"
#include "values.hpp"

namespace subring::config {

namespace {

using nlohmann::ordered_json;

constexpr std::string_view kNone = "none";

Problem read_bandwidth(const Node& node, double& value) {
  if (node.kind != Node::Kind::scalar) return describe_value(node) + " is no bandwidth";
  const auto parsed = node.text == kNone ? wire::kUnlimited : parse_bandwidth(node.text);
  if (!parsed) return describe_value(node) + " is no bandwidth";
  value = *parsed;
  return {};
}

Problem read_duration(const Node& node, double& value) {
  if (node.kind != Node::Kind::scalar) return describe_value(node) + " is no duration";
  const auto parsed = parse_duration(node.text);
  if (!parsed) return describe_value(node) + " is no duration";
  value = *parsed;
  return {};
}

Problem read_rank(const Node& node, int& value) {
  int64_t rank = 0;
  if (Problem problem = read_integer(node, {0, (1 << 16) - 1}, rank)) return problem;
  value = static_cast<int>(rank);
  return {};
}

ordered_json bandwidth_json(double value) {
  return value == wire::kUnlimited ? std::string(kNone) : format_bandwidth(value);
}

/// One field of a list's entries: reads it into, or writes it from, an entry.
template <typename Entry>
struct Field {
  std::string_view name;
  bool required = false;
  std::function<Problem(const Node&, Entry&)> read;
  std::function<void(const Entry&, std::string_view, ordered_json&)> write;
};

template <typename Entry>
Field<Entry> rank_field(std::string_view name, int Entry::*member) {
  return {
      .name = name,
      .required = true,
      .read = [member](const Node& node, Entry& entry) { return read_rank(node, entry.*member); },
      .write = [member](const Entry& entry,
                        std::string_view key,
                        ordered_json& json) { json[std::string(key)] = entry.*member; }};
}

template <typename Entry, typename Read, typename Write>
Field<Entry> optional_field(std::string_view name,
                            std::optional<double> Entry::*member,
                            Read read,
                            Write write) {
  return {.name = name,
          .read = [member, read](const Node& node, Entry& entry) -> Problem {
            double value = 0;
            if (Problem problem = read(node, value)) return problem;
            entry.*member = value;
            return {};
          },
          .write =
              [member, write](const Entry& entry, std::string_view key, ordered_json& json) {
                if (entry.*member) json[std::string(key)] = write(*(entry.*member));
              }};
}

/// Reads one {name: value, ...} of a list.
template <typename Entry>
Problem read_entry(const Node& node, const std::vector<Field<Entry>>& fields, Entry& entry) {
  if (node.kind != Node::Kind::map) return describe_value(node) + " is no {name: value}";
  std::vector<std::string_view> seen;
  for (size_t i = 0; i < node.items.size(); ++i) {
    const std::string& name = node.names[i].text;
    const auto field = std::find_if(
        fields.begin(), fields.end(), [&](const Field<Entry>& f) { return f.name == name; });
    if (field == fields.end()) return fmt::format("{} is no name", in_quotes(name));
    if (std::find(seen.begin(), seen.end(), field->name) != seen.end()) {
      return fmt::format("{} is given twice", name);
    }
    seen.push_back(field->name);
    if (Problem problem = field->read(node.items[i], entry)) {
      return fmt::format("{}: {}", name, *problem);
    }
  }
  size_t num_required = 0;
  for (const Field<Entry>& field : fields) {
    if (!field.required) continue;
    ++num_required;
    if (std::find(seen.begin(), seen.end(), field.name) == seen.end()) {
      return fmt::format("{} is missing", field.name);
    }
  }
  if (seen.size() == num_required) return "nothing is set";
  return {};
}

template <typename Entry>
Problem read_list(const Node& node,
                  const std::vector<Field<Entry>>& fields,
                  std::vector<Entry>& list) {
  if (node.kind != Node::Kind::sequence) return describe_value(node) + " is no list";
  std::vector<Entry> entries;
  for (const Node& item : node.items) {
    if (Problem problem = read_entry(item, fields, entries.emplace_back())) {
      return fmt::format("entry {}: {}", entries.size(), *problem);
    }
  }
  list = std::move(entries);
  return {};
}

/// Adds the key of a list of entries.
template <typename Entry>
void add_list(std::vector<Key>& keys,
              std::string_view name,
              std::vector<Entry> wire::NetworkOptions::*list,
              std::vector<Field<Entry>> fields,
              std::string_view allowed,
              std::string_view doc) {
  Key& key = keys.emplace_back();
  key.path = fmt::format("network.{}", name);
  key.allowed = allowed;
  key.doc = doc;
  key.read = [list, fields](Config& config, const Node& node) {
    return read_list(node, fields, config.network.*list);
  };
  key.write = [list, fields](Config& config) {
    ordered_json json = ordered_json::array();
    for (const Entry& entry : config.network.*list) {
      ordered_json& item = json.emplace_back(ordered_json::object());
      for (const Field<Entry>& field : fields) field.write(entry, field.name, item);
    }
    return json;
  };
}

template <typename Read, typename Write>
void add_value(std::vector<Key>& keys,
               std::string_view name,
               double wire::NetworkOptions::*field,
               Read read,
               Write write,
               std::string allowed,
               std::string_view doc) {
  Key& key = keys.emplace_back();
  key.path = fmt::format("network.{}", name);
  key.allowed = std::move(allowed);
  key.doc = doc;
  key.read = [field, read](Config& config, const Node& node) {
    return read(node, config.network.*field);
  };
  key.write = [field, write](Config& config) -> ordered_json {
    return write(config.network.*field);
  };
}

}  // namespace

void add_network(std::vector<Key>& keys) {
  using wire::LinkOverride;
  using wire::NetworkOptions;
  using wire::RankBandwidth;
  add_value(keys,
            "bandwidth",
            &NetworkOptions::bandwidth,
            read_bandwidth,
            bandwidth_json,
            fmt::format("{}, or none", kBandwidthForm),
            "emulated uplink and downlink of every rank, each; none: as fast as it gets");
  add_value(keys,
            "latency",
            &NetworkOptions::latency_seconds,
            read_duration,
            format_duration,
            std::string(kDurationForm),
            "emulated, one way");
  add_value(keys,
            "jitter",
            &NetworkOptions::jitter_seconds,
            read_duration,
            format_duration,
            std::string(kDurationForm),
            "each message is late by a random time up to this; order between two ranks is kept");
  add_list(
      keys,
      "ranks",
      &NetworkOptions::ranks,
      std::vector{rank_field("rank", &RankBandwidth::rank),
                  optional_field("up", &RankBandwidth::up, read_bandwidth, bandwidth_json),
                  optional_field("down", &RankBandwidth::down, read_bandwidth, bandwidth_json)},
      "a list such as [{rank: 2, up: 30Mbps, down: 100Mbps}], with up, down or both",
      "ranks whose own bandwidth differs");
  add_list(
      keys,
      "links",
      &NetworkOptions::links,
      std::vector{
          rank_field("from", &LinkOverride::from),
          rank_field("to", &LinkOverride::to),
          optional_field("bandwidth", &LinkOverride::bandwidth, read_bandwidth, bandwidth_json),
          optional_field(
              "latency", &LinkOverride::latency_seconds, read_duration, format_duration)},
      "a list such as [{from: 0, to: 1, bandwidth: 10Mbps, latency: 50ms}], with bandwidth, "
      "latency or both",
      "single directions between two ranks that differ");
}

}  // namespace subring::config
