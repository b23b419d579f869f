#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace subring::config {

/// A parsed YAML value with the line it stands on: all that the checks need.
struct Node {
  enum class Kind { null, scalar, sequence, map };

  Kind kind = Kind::null;
  std::string text;         ///< of a scalar
  bool quoted = false;      ///< a scalar in quotes is text, never a number or a switch
  int line = 0;             ///< 1-based
  std::vector<Node> items;  ///< of a sequence; of a map its values
  std::vector<Node> names;  ///< of a map, beside items: its keys, all scalars
};

/// Parses one YAML document. Anchors, aliases, tags and merge keys are refused: no key needs them,
/// and without them the tree is never larger than the text.
/// @param place  file for messages; a message names "place:line"
/// @throws Error{config}
Node parse_document(const std::string& text, const std::string& place);

/// Reads a whole text file. @throws Error{config} missing, a directory, binary, or above 1 MiB
std::string read_config_file(const std::string& path);

/// `text` with control characters escaped, safe within one line.
std::string escaped(std::string_view text);
/// The same in double quotes, and cut when it is long.
std::string in_quotes(std::string_view text);

}  // namespace subring::config
