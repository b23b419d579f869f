#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "subring/config/config.hpp"
#include "subring/core/error.hpp"

namespace subring::config {

/// A YAML file that goes away with its object. Messages name it as c.yaml (see error_of).
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text) {
    static std::atomic<int> count{0};
    path_ = std::filesystem::temp_directory_path() / ("subring_config_" + std::to_string(getpid()) +
                                                      "_" + std::to_string(count++) + ".yaml");
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline Config load_text(const std::string& text, const std::vector<std::string>& overrides = {}) {
  const TemporaryFile file(text);
  return load_config(file.path(), overrides);
}

/// The message for a bad configuration, its path written as c.yaml; "(accepted)" when there is
/// none, "(kind)" when the error is of another kind than config.
inline std::string error_of(const std::string& text,
                            const std::vector<std::string>& overrides = {}) {
  const TemporaryFile file(text);
  try {
    load_config(file.path(), overrides);
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::config) return "(kind)";
    std::string message = e.what();
    const std::string name = file.path().string();
    const size_t start = message.find(name);
    if (start != std::string::npos) message.replace(start, name.size(), "c.yaml");
    return message;
  }
  return "(accepted)";
}

/// The least that is accepted; a test adds to it.
inline const std::string kMinimal = "data: {train: x.bin}\n";

}  // namespace subring::config
