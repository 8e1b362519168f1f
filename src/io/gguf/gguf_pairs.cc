#include "io/gguf/gguf_pairs.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "base/check.h"

namespace kvick::io {
namespace {

constexpr uint32_t kString = 8, kArray = 9;
// Bytes of each value type; 0 for strings and arrays, which store their length.
constexpr std::array<uint64_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
constexpr size_t kHeaderBytes = 24;  // magic, version, number of tensors, number of keys

class Walker {
 public:
  explicit Walker(std::string_view file) : file_(file) {
    KVICK_CHECK(file.size() >= kHeaderBytes, "a file of {} bytes", file.size());
    std::memcpy(&count_, &file[16], sizeof count_);
  }

  void copy(std::initializer_list<std::string_view> without, GgufMetadata& out) {
    for (uint64_t i = 0; i < count_; ++i) {
      const size_t begin = at_;
      const std::string_view key = text();
      skip(number<uint32_t>());
      if (std::find(without.begin(), without.end(), key) == without.end())
        out.put_encoded(file_.substr(begin, at_ - begin), 1);
    }
  }

 private:
  template <typename T>
  T number() {
    T value;
    KVICK_CHECK(file_.size() - at_ >= sizeof value, "metadata ends at {}", at_);
    std::memcpy(&value, &file_[at_], sizeof value);
    at_ += sizeof value;
    return value;
  }
  std::string_view text() {
    const auto bytes = number<uint64_t>();
    KVICK_CHECK(file_.size() - at_ >= bytes, "metadata ends at {}", at_);
    at_ += bytes;
    return file_.substr(at_ - bytes, bytes);
  }
  void skip(uint32_t kind) {
    if (kind == kString) {
      text();
    } else if (kind == kArray) {
      const auto elements = number<uint32_t>();
      for (auto left = number<uint64_t>(); left > 0; --left) skip(elements);
    } else {
      at_ += kBytes.at(kind);
    }
  }

  std::string_view file_;
  size_t at_ = kHeaderBytes;
  uint64_t count_ = 0;
};

}  // namespace

void copy_pairs(std::span<const std::byte> file, std::initializer_list<std::string_view> without,
                GgufMetadata& out) {
  Walker({reinterpret_cast<const char*>(file.data()), file.size()}).copy(without, out);
}

}  // namespace kvick::io
