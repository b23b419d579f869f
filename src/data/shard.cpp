#include "subring/data/shard.hpp"

#include <fcntl.h>
#include <glob.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "subring/core/error.hpp"

namespace subring::data {
namespace {

static_assert(std::endian::native == std::endian::little, "shards are little-endian files");

struct Descriptor {
  int value;
  ~Descriptor() {
    if (value >= 0) ::close(value);
  }
};

template <typename... Args>
[[noreturn]] void fail(const std::string& path,
                       fmt::format_string<Args...> format,
                       Args&&... args) {
  throw Error(ErrorKind::data, fmt::format(format, std::forward<Args>(args)...), path);
}

std::string system_message() { return std::generic_category().message(errno); }

int64_t modified_nanoseconds(const struct stat& status) {
  return int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// Bytes of a token, from the first two words of the header.
int64_t check_format(const std::string& path, int32_t magic, int32_t version) {
  if (magic != kShardMagic16 && magic != kShardMagic32) {
    fail(path,
         "offset 0: magic {}; a token shard begins with {} (uint16) or {} (uint32)",
         magic,
         kShardMagic16,
         kShardMagic32);
  }
  const int32_t expected = magic == kShardMagic16 ? kShardVersion16 : kShardVersion32;
  if (version != expected) {
    fail(path, "offset 4: version {}; magic {} goes with version {}", version, magic, expected);
  }
  return magic == kShardMagic16 ? 2 : 4;
}

template <typename Token>
int64_t copy_tokens(const unsigned char* source, std::span<int32_t> out, int64_t vocab_size) {
  for (size_t i = 0; i < out.size(); ++i) {
    Token token;
    std::memcpy(&token, source + i * sizeof(Token), sizeof(Token));
    if (int64_t{token} >= vocab_size) return static_cast<int64_t>(i);
    out[i] = static_cast<int32_t>(token);
  }
  return -1;
}

}  // namespace

Shard::Shard(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK opening a pipe would wait for a writer.
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.value < 0) fail(path_, "cannot open: {}", system_message());
  struct stat status {};
  if (::fstat(file.value, &status) != 0) fail(path_, "cannot stat: {}", system_message());
  if (!S_ISREG(status.st_mode)) fail(path_, "is not a regular file; a token shard must be one");
  size_bytes_ = status.st_size;
  device_ = status.st_dev;
  inode_ = status.st_ino;
  modified_nanoseconds_ = modified_nanoseconds(status);
  if (size_bytes_ == 0) fail(path_, "is empty; a token shard has a header of 1024 bytes");

  std::array<int32_t, 3> header{};
  if (size_bytes_ >= 12 && ::pread(file.value, header.data(), 12, 0) != 12) {
    fail(path_, "offset 0: cannot read: {}", system_message());
  }
  if (size_bytes_ >= 12) token_bytes_ = check_format(path_, header[0], header[1]);
  if (size_bytes_ < kShardHeaderBytes) {
    fail(path_, "ends at offset {}, within the header of 1024 bytes", size_bytes_);
  }
  num_tokens_ = header[2];
  if (num_tokens_ < 0) fail(path_, "offset 8: a count of {} tokens", num_tokens_);
  const int64_t expected_bytes = kShardHeaderBytes + num_tokens_ * token_bytes_;
  if (size_bytes_ != expected_bytes) {
    fail(path_,
         "offset 8: the header counts {} tokens, which end at offset {}; the file ends at {}{}",
         num_tokens_,
         expected_bytes,
         size_bytes_,
         size_bytes_ < expected_bytes ? " (truncated)" : "");
  }
  void* mapping =
      ::mmap(nullptr, static_cast<size_t>(size_bytes_), PROT_READ, MAP_SHARED, file.value, 0);
  if (mapping == MAP_FAILED) {
    throw Error(ErrorKind::io, fmt::format("cannot map: {}", system_message()), path_);
  }
  mapping_ = static_cast<const unsigned char*>(mapping);
}

Shard::~Shard() {
  if (mapping_ != nullptr) {
    ::munmap(const_cast<unsigned char*>(mapping_), static_cast<size_t>(size_bytes_));
  }
}

Shard::Shard(Shard&& other) noexcept
    : path_(std::move(other.path_)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      size_bytes_(other.size_bytes_),
      num_tokens_(other.num_tokens_),
      token_bytes_(other.token_bytes_),
      device_(other.device_),
      inode_(other.inode_),
      modified_nanoseconds_(other.modified_nanoseconds_) {}

// By name, so that a set of thousands of shards holds no descriptors. A file that was removed or
// replaced by rename keeps its pages as long as it is mapped: no reason to stop a run.
void Shard::check_unchanged() const {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0) return;
  if (status.st_dev != device_ || status.st_ino != inode_) return;
  if (status.st_size != size_bytes_) {
    fail(path_, "was {} bytes when opened and is {} now", size_bytes_, int64_t{status.st_size});
  }
  if (modified_nanoseconds(status) != modified_nanoseconds_) {
    fail(path_, "was modified after it was opened; a run needs its data to stay as it is");
  }
}

void Shard::read(int64_t first, std::span<int32_t> out, int64_t vocab_size) const {
  SUBRING_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= num_tokens_,
                ErrorKind::shape,
                "tokens [{}, {}) of a shard of {}",
                first,
                first + static_cast<int64_t>(out.size()),
                num_tokens_);
  check_unchanged();
  const int64_t offset = kShardHeaderBytes + first * token_bytes_;
  const unsigned char* source = mapping_ + offset;
  const int64_t bad = token_bytes_ == 2 ? copy_tokens<uint16_t>(source, out, vocab_size)
                                        : copy_tokens<uint32_t>(source, out, vocab_size);
  if (bad < 0) return;
  uint32_t token = 0;
  std::memcpy(&token, source + bad * token_bytes_, static_cast<size_t>(token_bytes_));
  fail(path_,
       "offset {}: token {} is not below vocab_size {}",
       offset + bad * token_bytes_,
       token,
       vocab_size);
}

std::vector<std::string> match_paths(const std::string& pattern) {
  if (pattern.empty()) throw Error(ErrorKind::data, "no path or glob of token shards given");
  glob_t found{};
  // glob's own order follows the locale.
  const int code = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_BRACE | GLOB_TILDE, nullptr, &found);
  std::vector<std::string> paths;
  if (code == 0) paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (paths.empty()) fail(pattern, "no file matches; 'subring tokenize' makes token shards");
  std::sort(paths.begin(), paths.end());
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

}  // namespace subring::data
