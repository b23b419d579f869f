#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace subring::data {

/// A file that appears under its name only when it is whole: written as "<name>.partial", synced,
/// then renamed. Destroyed before commit(), it leaves nothing behind. Every refusal of the system
/// (disk full, no permission) is an Error{io} that names the file.
class StagedFile {
 public:
  explicit StagedFile(std::filesystem::path path);
  ~StagedFile();
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Appends. Unbuffered: pass large blocks.
  void append(const void* bytes, size_t num_bytes);
  /// Overwrites bytes that were appended before.
  void write_at(int64_t offset, const void* bytes, size_t num_bytes);
  void read_at(int64_t offset, void* bytes, size_t num_bytes);
  void truncate(int64_t num_bytes);
  /// Everything written is on the disk, and the descriptor is closed (a later call reopens it), so
  /// that a set of any number of files needs one descriptor.
  void sync();
  /// Renames to path(), replacing what is there. Call sync() first and sync_directory() after.
  void commit();

 private:
  int descriptor();

  std::filesystem::path path_;
  std::filesystem::path partial_path_;
  int descriptor_ = -1;
  int64_t size_bytes_ = 0;
  bool committed_ = false;
};

/// Makes renames and removals in `directory` durable. @throws Error{io}
void sync_directory(const std::filesystem::path& directory);

}  // namespace subring::data
