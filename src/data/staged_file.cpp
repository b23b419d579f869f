#include "subring/data/staged_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

#include "subring/core/error.hpp"

namespace subring::data {
namespace {

[[noreturn]] void fail(const char* doing, const std::filesystem::path& path) {
  const int code = errno;
  throw Error(ErrorKind::io,
              fmt::format("cannot {}: {}", doing, std::generic_category().message(code)),
              path.string());
}

}  // namespace

StagedFile::StagedFile(std::filesystem::path path) : path_(std::move(path)), partial_path_(path_) {
  partial_path_ += ".partial";
  descriptor_ = ::open(partial_path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail("create", partial_path_);
}

StagedFile::~StagedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!committed_ && ::unlink(partial_path_.c_str()) != 0 && errno != ENOENT) {
    std::fprintf(stderr, "%s: cannot remove: %s\n", partial_path_.c_str(), std::strerror(errno));
  }
}

int StagedFile::descriptor() {
  if (descriptor_ < 0) {
    descriptor_ = ::open(partial_path_.c_str(), O_RDWR | O_CLOEXEC);
    if (descriptor_ < 0) fail("open", partial_path_);
  }
  return descriptor_;
}

void StagedFile::append(const void* bytes, size_t num_bytes) {
  write_at(size_bytes_, bytes, num_bytes);
}

void StagedFile::write_at(int64_t offset, const void* bytes, size_t num_bytes) {
  const char* source = static_cast<const char*>(bytes);
  while (num_bytes > 0) {
    const ssize_t written = ::pwrite(descriptor(), source, num_bytes, offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write", path_);
    source += written;
    offset += written;
    num_bytes -= static_cast<size_t>(written);
  }
  if (offset > size_bytes_) size_bytes_ = offset;
}

void StagedFile::read_at(int64_t offset, void* bytes, size_t num_bytes) {
  char* target = static_cast<char*>(bytes);
  while (num_bytes > 0) {
    const ssize_t got = ::pread(descriptor(), target, num_bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", partial_path_);
    if (got == 0) throw Error(ErrorKind::io, "shrank while written", partial_path_.string());
    target += got;
    offset += got;
    num_bytes -= static_cast<size_t>(got);
  }
}

void StagedFile::truncate(int64_t num_bytes) {
  if (::ftruncate(descriptor(), num_bytes) != 0) fail("truncate", partial_path_);
  size_bytes_ = num_bytes;
}

void StagedFile::sync() {
  if (::fsync(descriptor()) != 0) fail("sync", path_);
  // Network file systems report a full disk or quota only here.
  const int closed = ::close(std::exchange(descriptor_, -1));
  if (closed != 0) fail("close", path_);
}

void StagedFile::commit() {
  if (::rename(partial_path_.c_str(), path_.c_str()) != 0) fail("rename to this name", path_);
  committed_ = true;
}

void sync_directory(const std::filesystem::path& directory) {
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail("open", directory);
  const int synced = ::fsync(descriptor);
  const int code = errno;
  ::close(descriptor);
  errno = code;
  if (synced != 0) fail("sync", directory);
}

}  // namespace subring::data
