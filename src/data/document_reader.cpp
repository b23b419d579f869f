#include "subring/data/document_reader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "subring/core/error.hpp"
#include "subring/data/utf8.hpp"

namespace subring::data {
namespace {

constexpr size_t kBlockBytes = size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

Error system_error(const char* doing, const std::string& name) {
  return Error(ErrorKind::data,
               fmt::format("cannot {}: {}", doing, std::generic_category().message(errno)),
               name);
}

/// Size of a regular file; -1 for a pipe or a device.
int64_t check_input(const std::string& name) {
  if (name == "-") return -1;
  struct stat status {};
  if (::stat(name.c_str(), &status) != 0) throw system_error("open", name);
  if (S_ISDIR(status.st_mode)) {
    throw Error(ErrorKind::data, fmt::format("is a directory; name its files: {}/*", name), name);
  }
  if (::access(name.c_str(), R_OK) != 0) throw system_error("open", name);
  return S_ISREG(status.st_mode) ? status.st_size : -1;
}

}  // namespace

DocumentReader::DocumentReader(std::vector<std::string> inputs) : inputs_(std::move(inputs)) {
  bool known = true;
  for (const std::string& name : inputs_) {
    const int64_t size = check_input(name);
    known = known && size >= 0;
    total_bytes_ += size;
  }
  if (!known) total_bytes_ = -1;
}

DocumentReader::~DocumentReader() { close_input(); }

void DocumentReader::close_input() {
  if (descriptor_ > STDIN_FILENO) ::close(descriptor_);
  descriptor_ = -1;
}

void DocumentReader::open_next() {
  const std::string& input = inputs_[next_input_++];
  const bool is_stdin = input == "-";
  name_ = is_stdin ? "<stdin>" : input;
  descriptor_ = is_stdin ? STDIN_FILENO : ::open(input.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw system_error("open", name_);
  is_jsonl_ = name_.ends_with(".jsonl");
  at_end_ = false;
  buffer_.clear();
  begin_ = 0;
  begin_offset_ = 0;
  line_number_ = 0;
  fill();
  if (std::string_view(buffer_).starts_with(kByteOrderMark)) {
    begin_ = kByteOrderMark.size();
    begin_offset_ = static_cast<int64_t>(begin_);
  }
}

// Drops what is consumed and reads a whole block more, less only at the end of the input.
void DocumentReader::fill() {
  buffer_.erase(0, begin_);
  begin_ = 0;
  const size_t kept = buffer_.size();
  buffer_.resize(kept + kBlockBytes);
  size_t end = kept;
  while (end < buffer_.size()) {
    const ssize_t got = ::read(descriptor_, buffer_.data() + end, buffer_.size() - end);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("read", name_);
    if (got == 0) {
      at_end_ = true;
      break;
    }
    end += static_cast<size_t>(got);
  }
  buffer_.resize(end);
  bytes_read_ += static_cast<int64_t>(end - kept);
}

bool DocumentReader::next(DocumentPiece& piece) {
  while (true) {
    if (descriptor_ < 0) {
      if (next_input_ == inputs_.size()) return false;
      open_next();
    }
    if (!is_jsonl_) {
      next_text(piece);
      if (piece.ends_document) close_input();
      return true;
    }
    if (next_line(piece)) return true;
    close_input();
  }
}

void DocumentReader::next_text(DocumentPiece& piece) {
  const auto unread = std::string_view(buffer_).substr(begin_);
  if (!at_end_ && unread.size() < kBlockBytes) fill();
  const auto text = std::string_view(buffer_).substr(begin_);
  const Utf8Prefix prefix = check_utf8(text);
  if (prefix.invalid || (at_end_ && prefix.valid_bytes < text.size())) {
    throw Error(ErrorKind::data,
                fmt::format("offset {}: byte 0x{:02x} is not valid UTF-8",
                            begin_offset_ + static_cast<int64_t>(prefix.valid_bytes),
                            static_cast<uint8_t>(text[prefix.valid_bytes])),
                name_);
  }
  piece = {text.substr(0, prefix.valid_bytes), at_end_};
  begin_ += prefix.valid_bytes;
  begin_offset_ += static_cast<int64_t>(prefix.valid_bytes);
}

bool DocumentReader::next_line(DocumentPiece& piece) {
  while (true) {
    size_t searched = 0;
    size_t newline;
    while (true) {
      newline = buffer_.find('\n', begin_ + searched);
      if (newline != std::string::npos || at_end_) break;
      searched = buffer_.size() - begin_;
      fill();
    }
    if (newline == std::string::npos && begin_ == buffer_.size()) return false;
    const size_t end = newline == std::string::npos ? buffer_.size() : newline;
    const auto line = std::string_view(buffer_).substr(begin_, end - begin_);
    ++line_number_;
    const bool is_blank = line.find_first_not_of(" \t\r") == std::string_view::npos;
    if (!is_blank) parse_line(line);
    const size_t consumed = line.size() + (newline == std::string::npos ? 0 : 1);
    begin_ += consumed;
    begin_offset_ += static_cast<int64_t>(consumed);
    if (is_blank) continue;
    piece = {text_, true};
    return true;
  }
}

void DocumentReader::parse_line(std::string_view line) {
  const auto fail = [&](std::string_view what) {
    return Error(ErrorKind::data, what, fmt::format("{}:{}", name_, line_number_));
  };
  const Utf8Prefix prefix = check_utf8(line);
  if (prefix.valid_bytes < line.size()) {
    throw fail(fmt::format("offset {}: byte 0x{:02x} is not valid UTF-8",
                           begin_offset_ + static_cast<int64_t>(prefix.valid_bytes),
                           static_cast<uint8_t>(line[prefix.valid_bytes])));
  }
  auto value = nlohmann::json::parse(line, nullptr, false);
  if (value.is_discarded()) throw fail("is not JSON; expected one object a line");
  if (!value.is_object()) throw fail("is not a JSON object with a \"text\"");
  const auto text = value.find("text");
  if (text == value.end()) throw fail("has no \"text\"");
  if (!text->is_string()) {
    throw fail(fmt::format("\"text\" is a JSON {}, not a string", text->type_name()));
  }
  text_ = std::move(text->get_ref<std::string&>());
}

}  // namespace subring::data
