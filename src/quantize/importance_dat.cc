#include "quantize/importance_dat.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace kvick::quantize {
namespace {

using base::fail;

// Reads numbers and arrays from bytes, in order.
class Front {
 public:
  explicit Front(std::span<const std::byte> bytes) : left_(bytes) {}

  bool empty() const { return left_.empty(); }

  bool take(void* to, size_t bytes) {
    if (bytes > left_.size()) return false;
    if (bytes > 0) std::memcpy(to, left_.data(), bytes);
    left_ = left_.subspan(bytes);
    return true;
  }

  // Reads an int32 length and as many elements. Returns false for a negative length or too few
  // bytes.
  template <typename Things>
  bool take_counted(Things& things) {
    constexpr size_t kEach = sizeof(typename Things::value_type);
    int32_t count = 0;
    if (!take(&count, sizeof(count)) || count < 0 || size_t(count) > left_.size() / kEach)
      return false;
    things.resize(size_t(count));
    return take(things.data(), things.size() * kEach);
  }

 private:
  std::span<const std::byte> left_;
};

}  // namespace

base::Result<Importance> parse_importance_dat(std::span<const std::byte> bytes,
                                              const std::string& path) {
  const auto none = [&] {
    return fail(
        "{}: not an importance file, neither a GGUF file nor one of llama-imatrix's older form "
        "(.dat), or cut off: kvick train imatrix makes one",
        path);
  };
  Front front(bytes);
  int32_t entries = 0;
  if (!front.take(&entries, sizeof(entries)) || entries < 1) return none();
  Importance importance;
  for (int32_t i = 0; i < entries; ++i) {
    std::string name;
    int32_t calls = 0;
    Importance::Sums sums;
    if (!front.take_counted(name) || name.empty() || !front.take(&calls, sizeof(calls)) ||
        !front.take_counted(sums.squares) || sums.squares.empty())
      return none();
    if (calls < 0) return fail("{}: tensor {} has {} calls", path, name, calls);
    for (const float value : sums.squares)
      if (!std::isfinite(value) || value < 0)
        return fail("{}: tensor {} holds {}; sums of squares are finite and not negative", path,
                    name, value);
    sums.tokens = {static_cast<float>(std::max(calls, 1))};  // 0 calls: the sums are means
    sums.one_count = true;
    if (!importance.tensors.emplace(name, std::move(sums)).second)
      return fail("{}: tensor {} comes twice", path, name);
  }
  if (front.empty()) return importance;
  int32_t chunks = 0;
  if (!front.take(&chunks, sizeof(chunks)) || chunks < 0 || !front.take_counted(importance.text))
    return none();
  importance.chunks = static_cast<uint32_t>(chunks);
  return importance;
}

}  // namespace kvick::quantize
