#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <string_view>

namespace subring::report {

/// One number of a TensorBoard time series.
struct Scalar {
  std::string_view tag;  ///< "group/name"; TensorBoard shows a section for each group
  double value = 0;      ///< stored as float32, as the format has it
};

/// CRC-32C (Castagnoli polynomial, reflected): RFC 3720, section 12.1.
uint32_t crc32c(std::string_view bytes);

/// A TFRecord: length (8 bytes), its masked CRC (4), payload, its masked CRC (4); little endian.
/// Source: tensorflow/core/lib/io/record_writer.h.
std::string frame_record(std::string_view payload);

/// An event file for TensorBoard, "events.out.tfevents.<seconds>.<host>": records of protocol
/// buffer messages `Event` (tensorflow/core/util/event.proto), of which only the fields that
/// scalars need are written. Every event is flushed at once.
class EventFile {
 public:
  /// @param directory  exists; the time in the file's name is now
  /// @throws Error{io}  the file cannot be created or written
  explicit EventFile(const std::filesystem::path& directory);

  const std::filesystem::path& path() const { return path_; }

  /// Appends one event that holds all `scalars`, with the wall time of this call.
  void write(int64_t step, std::span<const Scalar> scalars);

 private:
  void append(std::string_view event);

  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace subring::report
