#include "document.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "subring/core/error.hpp"

namespace subring::config {

namespace {

// The deepest key is section.group.key with a list as its value; the rest is room for a message
// about the key instead of one about depth.
constexpr size_t kMaxDepth = 8;
// Two orders of magnitude above a complete configuration.
constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr size_t kMaxQuotedLength = 60;

[[noreturn]] void fail(const std::string& place, int line, std::string_view message) {
  throw Error(ErrorKind::config, message, line > 0 ? fmt::format("{}:{}", place, line) : place);
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Tabs in indentation: YAML forbids them, but yaml-cpp takes some of them for spaces.
void refuse_tabs(const std::vector<std::string>& lines, const std::string& place) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const size_t content = lines[i].find_first_not_of(" \t\r");
    if (content == std::string::npos || lines[i][content] == '#') continue;
    if (lines[i].substr(0, content).find('\t') != std::string::npos) {
      fail(place, static_cast<int>(i + 1), "a tab in the indentation; indent with spaces");
    }
  }
}

/// Whether the quote that opens at `start` is closed in the same line.
bool is_closed(const std::string& line, size_t start) {
  const char quote = line[start];
  for (size_t i = start + 1; i < line.size(); ++i) {
    if (line[i] == '\\' && quote == '"') {
      ++i;
    } else if (line[i] == quote) {
      return true;  // of '' (an escaped ') the second closes just as well
    }
  }
  return false;
}

/// Builds a Node from yaml-cpp's events. The tree API of yaml-cpp is not used: it hides duplicate
/// keys, and expands aliases.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& place, const std::vector<std::string>& lines)
      : place_(place), lines_(lines) {}

  Node take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    Node node;
    node.line = mark.line + 1;
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    fail(place_,
         mark.line + 1,
         "aliases (*name) are not supported; write the value out, or put text in quotes");
  }

  void OnScalar(const YAML::Mark& mark,
                const std::string& tag,
                YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    Node node;
    node.kind = Node::Kind::scalar;
    node.text = value;
    node.quoted = tag == "!";
    node.line = mark.line + 1;
    if (node.quoted) refuse_open_quote(mark);
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark,
                       const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::sequence, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark,
                  const std::string& tag,
                  YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::map, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) {
      fail(place_,
           mark.line + 1,
           "anchors (&name) are not supported; write the value out, or put text in quotes");
    }
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    // yaml-cpp gives "?" to plain and "!" to quoted scalars that carry no tag.
    if (!tag.empty() && tag != "?" && tag != "!") {
      fail(place_,
           mark.line + 1,
           fmt::format("the tag {} is not supported; leave it out", in_quotes(tag)));
    }
  }

  /// yaml-cpp closes an open quote at the end of the file, and everything between is swallowed.
  void refuse_open_quote(const YAML::Mark& mark) const {
    const auto line = static_cast<size_t>(mark.line);
    const auto column = static_cast<size_t>(mark.column);
    if (line >= lines_.size() || column >= lines_[line].size()) return;
    const char c = lines_[line][column];
    if ((c == '"' || c == '\'') && !is_closed(lines_[line], column)) {
      fail(place_, mark.line + 1, "a quote that is not closed in its line; close it");
    }
  }

  bool expects_name() const {
    return !open_.empty() && open_.back().kind == Node::Kind::map &&
           open_.back().names.size() == open_.back().items.size();
  }

  void open(Node::Kind kind,
            const YAML::Mark& mark,
            const std::string& tag,
            YAML::anchor_t anchor) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (expects_name()) refuse_name(mark.line + 1);
    if (open_.size() == kMaxDepth) {
      fail(place_,
           mark.line + 1,
           fmt::format("nested more than {} levels deep; keys are section.key", kMaxDepth));
    }
    Node node;
    node.kind = kind;
    node.line = mark.line + 1;
    open_.push_back(std::move(node));
  }

  void close() {
    Node node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }

  [[noreturn]] void refuse_name(int line) const {
    fail(place_,
         line,
         "a list or section where a name must stand (a bracket not closed?); write name: value");
  }

  void add(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
    } else if (expects_name()) {
      if (node.kind == Node::Kind::null) {
        fail(place_, node.line, "a key without a name; write name: value");
      }
      if (node.kind != Node::Kind::scalar) refuse_name(node.line);
      if (node.text == "<<" && !node.quoted) {
        fail(place_, node.line, "merge keys (<<) are not supported; write the keys out");
      }
      open_.back().names.push_back(std::move(node));
    } else {
      open_.back().items.push_back(std::move(node));
    }
  }

  const std::string& place_;
  const std::vector<std::string>& lines_;
  std::vector<Node> open_;  // innermost last
  Node root_;
};

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\n') {
      result += "\\n";
    } else if (c == '\t') {
      result += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result;
}

std::string in_quotes(std::string_view text) {
  if (text.size() <= kMaxQuotedLength) return fmt::format("\"{}\"", escaped(text));
  size_t length = kMaxQuotedLength;
  // Cut before, not inside, a UTF-8 sequence.
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  return fmt::format("\"{}...\"", escaped(text.substr(0, length)));
}

Node parse_document(const std::string& text, const std::string& place) {
  const std::vector<std::string> lines = split_lines(text);
  refuse_tabs(lines, place);
  std::istringstream stream(text);
  TreeBuilder builder(place, lines);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return {};
    Node root = builder.take();
    TreeBuilder rest(place, lines);
    if (parser.HandleNextDocument(rest)) {
      fail(place,
           rest.take().line,
           "a second document (after ---); a configuration is one document");
    }
    return root;
  } catch (const YAML::Exception& e) {
    const bool is_reference =
        e.msg.find("anchor") != std::string::npos || e.msg.find("alias") != std::string::npos;
    fail(place,
         e.mark.line + 1,
         fmt::format("not valid YAML: {}; {}",
                     escaped(e.msg),
                     is_reference ? "text that starts with * or & must be in quotes"
                                  : "see configs/reference.yaml for the form"));
  }
}

std::string read_config_file(const std::string& path) {
  const std::string place = escaped(path);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    fail(place, 0, "is a directory; give a YAML file");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    fail(place, 0, fmt::format("cannot be read ({}); give a YAML file", std::strerror(errno)));
  }
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) {
    fail(place, 0, fmt::format("cannot be read ({}); give a YAML file", std::strerror(errno)));
  }
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.find('\0') != std::string::npos) {
    fail(place, 0, "is binary; a configuration is YAML text in UTF-8");
  }
  if (text.size() > kMaxFileBytes) {
    fail(place, 0, "is larger than 1 MiB; a configuration is a short YAML file");
  }
  return text;
}

}  // namespace subring::config
