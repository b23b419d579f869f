#pragma once

#include <filesystem>
#include <set>
#include <string>

namespace subring::data {

/// The directory of one token set while a process writes it. Locked against a second writer; made
/// when missing, and removed again when nothing was committed.
class OutputDirectory {
 public:
  /// @param overwrite  may hold a token set already
  /// @throws Error{config}  it does, and overwrite is off; Error{io}
  OutputDirectory(std::filesystem::path path, bool overwrite);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Takes away tokenizer.json, the sign of a complete set, before its files are replaced.
  void begin_commit();
  /// Removes what an earlier set had and the new one has not. @param kept  names of the new set
  void end_commit(const std::set<std::string>& kept);

 private:
  std::filesystem::path path_;
  int lock_ = -1;
  bool created_ = false;
  bool committed_ = false;
};

}  // namespace subring::data
