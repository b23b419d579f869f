#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>

#include "subring/core/view.hpp"

namespace subring {

/// Bump allocator for one lifetime (weights, gradients, optimizer, step, wire).
///
/// Two passes: an Arena without memory only measures; the same layout function is then run on one
/// that was made with the measured size. What goes past the capacity is an error, so memory cannot
/// grow after start. Blocks are 64-byte aligned; their
/// content is undefined until written.
class Arena {
 public:
  /// Measuring arena: allocate() returns views whose data is null.
  explicit Arena(std::string name);
  /// Real arena. @param memory  outlives the arena. @throws Error{backend} when refused
  Arena(std::string name, int64_t capacity_bytes, std::pmr::memory_resource& memory);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  /// @param what  a name for the memory report; equal names are added up
  View allocate(std::string_view what, DType dtype, Shape shape);

  /// All that has been handed out so far, as one f32 vector. Only for arenas of f32 blocks.
  View contents() const { return {base_, DType::f32, {used_bytes_ / 4}}; }
  const std::string& name() const { return name_; }
  int64_t used_bytes() const { return used_bytes_; }
  bool measuring() const { return memory_ == nullptr; }
  /// Bytes by name.
  const std::map<std::string, int64_t, std::less<>>& report() const { return report_; }

 private:
  std::string name_;
  std::pmr::memory_resource* memory_ = nullptr;
  std::byte* base_ = nullptr;
  int64_t capacity_bytes_ = 0;
  int64_t used_bytes_ = 0;
  std::map<std::string, int64_t, std::less<>> report_;
};

/// Runs `layout(arena)` twice, measuring then real, and returns the filled arena.
template <typename Layout>
std::unique_ptr<Arena> make_arena(const std::string& name,
                                  std::pmr::memory_resource& memory,
                                  Layout&& layout) {
  Arena measured(name);
  layout(measured);
  auto arena = std::make_unique<Arena>(name, measured.used_bytes(), memory);
  layout(*arena);
  return arena;
}

}  // namespace subring
