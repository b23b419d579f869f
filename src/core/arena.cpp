#include "subring/core/arena.hpp"

#include <cstring>
#include <new>

namespace subring {
namespace {

constexpr int64_t kAlignment = 64;

}  // namespace

Arena::Arena(std::string name) : name_(std::move(name)) {}

Arena::Arena(std::string name, int64_t capacity_bytes, std::pmr::memory_resource& memory)
    : name_(std::move(name)), memory_(&memory), capacity_bytes_(capacity_bytes) {
  if (capacity_bytes == 0) return;
  try {
    base_ = static_cast<std::byte*>(
        memory.allocate(static_cast<size_t>(capacity_bytes), static_cast<size_t>(kAlignment)));
  } catch (const std::bad_alloc&) {
    throw Error(ErrorKind::backend,
                fmt::format("{} bytes of memory for '{}' were refused", capacity_bytes, name_));
  }
}

Arena::~Arena() {
  if (base_ != nullptr) {
    memory_->deallocate(
        base_, static_cast<size_t>(capacity_bytes_), static_cast<size_t>(kAlignment));
  }
}

View Arena::allocate(std::string_view what, DType dtype, Shape shape) {
  View view{nullptr, dtype, shape};
  const int64_t bytes = (view.num_bytes() + kAlignment - 1) / kAlignment * kAlignment;
  if (!measuring()) {
    SUBRING_CHECK(used_bytes_ + bytes <= capacity_bytes_,
                  ErrorKind::shape,
                  "arena '{}' of {} bytes: no room for {} bytes of '{}'",
                  name_,
                  capacity_bytes_,
                  bytes,
                  what);
    view.data = base_ + used_bytes_;
  }
  used_bytes_ += bytes;
  if (auto entry = report_.find(what); entry != report_.end()) {
    entry->second += bytes;
  } else {
    report_.emplace(what, bytes);
  }
  return view;
}

}  // namespace subring
