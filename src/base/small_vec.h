#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

namespace kvick::base {

// A vector whose first N elements need no allocation, for lists on hot paths that are nearly always
// short. T must be default constructible and cheap to move.
template <typename T, size_t N>
class SmallVec {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return spilled_.empty() ? inline_.data() : spilled_.data(); }
  const T* data() const { return spilled_.empty() ? inline_.data() : spilled_.data(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  std::span<const T> span() const { return {data(), size_}; }

  void push_back(T value) {
    if (spilled_.empty() && size_ < N) {
      inline_[size_++] = std::move(value);
      return;
    }
    if (spilled_.empty()) spilled_.assign(inline_.begin(), inline_.end());
    spilled_.push_back(std::move(value));
    ++size_;
  }
  void clear() {
    spilled_.clear();
    size_ = 0;
  }

 private:
  std::array<T, N> inline_{};
  std::vector<T> spilled_;
  size_t size_ = 0;
};

}  // namespace kvick::base
