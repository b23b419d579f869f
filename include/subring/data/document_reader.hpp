#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace subring::data {

/// Part of a document: whole UTF-8 characters, valid until the next call of next().
struct DocumentPiece {
  std::string_view text;
  bool ends_document = false;
};

/// Streams documents out of files, in the order given, in bounded memory (a block of text; a line
/// of .jsonl). A file is one document, except that a .jsonl file is one a line, in the string
/// "text" of the line's object (empty lines are skipped). "-" is standard input, one document.
/// A byte order mark at the start of a file is dropped.
class DocumentReader {
 public:
  /// Looks at every input at once, so that a wrong name fails before hours of work.
  /// @throws Error{data}  missing, unreadable, a directory
  explicit DocumentReader(std::vector<std::string> inputs);
  ~DocumentReader();
  DocumentReader(const DocumentReader&) = delete;
  DocumentReader& operator=(const DocumentReader&) = delete;

  /// The next piece; false at the end of the last input.
  /// @throws Error{data}  invalid UTF-8 (file and byte offset); a line that is not JSON or has no
  ///                      string "text" (file:line)
  bool next(DocumentPiece& piece);

  int64_t bytes_read() const { return bytes_read_; }
  /// Bytes of all inputs; -1 when one of them is a pipe.
  int64_t total_bytes() const { return total_bytes_; }

 private:
  void open_next();
  void close_input();
  void fill();
  void next_text(DocumentPiece& piece);
  bool next_line(DocumentPiece& piece);
  void parse_line(std::string_view line);

  std::vector<std::string> inputs_;
  size_t next_input_ = 0;
  int64_t bytes_read_ = 0;
  int64_t total_bytes_ = 0;

  // The open input.
  std::string name_;
  int descriptor_ = -1;
  bool is_jsonl_ = false;
  bool at_end_ = false;
  std::string buffer_;
  size_t begin_ = 0;          // buffer_[begin_, end) is not consumed yet
  int64_t begin_offset_ = 0;  // where begin_ lies in the file
  int64_t line_number_ = 0;
  std::string text_;  // of the .jsonl line
};

}  // namespace subring::data
