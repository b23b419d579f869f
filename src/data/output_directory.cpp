#include "output_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "subring/core/error.hpp"
#include "subring/data/staged_file.hpp"

namespace subring::data {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPartial = ".partial";

/// train_00000.bin, validation_00000.bin, tokenizer.model or tokenizer.json?
bool belongs_to_set(std::string_view name) {
  if (name == "tokenizer.model" || name == "tokenizer.json") return true;
  for (const std::string_view prefix : {"train_", "validation_"}) {
    if (!name.starts_with(prefix) || !name.ends_with(".bin")) continue;
    const auto number = name.substr(prefix.size(), name.size() - prefix.size() - 4);
    return number.size() >= 5 &&
           std::all_of(number.begin(), number.end(), [](char c) { return c >= '0' && c <= '9'; });
  }
  return false;
}

std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Error io_error(const fs::path& path, std::string_view what) {
  return Error(ErrorKind::io, what, path.string());
}

void remove_file(const fs::path& path) {
  std::error_code code;
  fs::remove(path, code);
  if (code) throw io_error(path, fmt::format("cannot remove: {}", code.message()));
}

}  // namespace

OutputDirectory::OutputDirectory(fs::path path, bool overwrite) : path_(std::move(path)) {
  std::error_code code;
  created_ = fs::create_directories(path_, code);
  if (!fs::is_directory(path_)) {
    throw io_error(path_,
                   code ? fmt::format("cannot make the directory: {}", code.message())
                        : std::string("is not a directory"));
  }
  lock_ = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock_ < 0) throw io_error(path_, "cannot open the directory");
  // Some network file systems have no locks: then nothing guards against a second writer.
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    ::close(lock_);
    throw Error(ErrorKind::config, "another process writes a token set here", path_.string());
  }
  try {
    for (const std::string& name : names_in(path_)) {
      const bool left_by_a_killed_run =
          name.ends_with(kPartial) &&
          belongs_to_set(std::string_view(name).substr(0, name.size() - kPartial.size()));
      if (left_by_a_killed_run) remove_file(path_ / name);
      if (!overwrite && belongs_to_set(name)) {
        throw Error(
            ErrorKind::config,
            fmt::format("holds a token set already ({}); give another --out or --overwrite", name),
            path_.string());
      }
    }
  } catch (...) {
    ::close(lock_);
    throw;
  }
}

OutputDirectory::~OutputDirectory() {
  ::close(lock_);
  std::error_code ignored;  // not empty: then it stays
  if (created_ && !committed_) fs::remove(path_, ignored);
}

void OutputDirectory::begin_commit() {
  committed_ = true;
  remove_file(path_ / "tokenizer.json");
}

void OutputDirectory::end_commit(const std::set<std::string>& kept) {
  for (const std::string& name : names_in(path_)) {
    if (belongs_to_set(name) && !kept.contains(name)) remove_file(path_ / name);
  }
  sync_directory(path_);
}

}  // namespace subring::data
