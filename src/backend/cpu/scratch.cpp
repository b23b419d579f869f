#include <new>

#include "kernels.hpp"

namespace subring::cpu {
namespace {

constexpr std::align_val_t kAlignment{64};

/// Memory of one thread, freed when it ends. Contents do not survive growth.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  ~Buffer() { ::operator delete(data_, kAlignment); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* at_least(int64_t count) {
    if (count > count_) {
      ::operator delete(data_, kAlignment);
      data_ = nullptr;
      count_ = 0;
      data_ = static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), kAlignment));
      count_ = count;
    }
    return data_;
  }

 private:
  T* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace

float* thread_scratch(int64_t num_floats) {
  thread_local Buffer<float> buffer;
  return buffer.at_least(num_floats);
}

double* thread_partials(int64_t num_doubles) {
  thread_local Buffer<double> buffer;
  return buffer.at_least(num_doubles);
}

}  // namespace subring::cpu
