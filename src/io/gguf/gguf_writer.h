#pragma once
// Writes the part of a GGUF file (version 3) before the tensors' data, by the format's
// specification (ggml/docs/gguf.md). Needs only the standard library, so that programs without
// libkvick can write the same files.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvick::io {

// The metadata, in the order of the calls.
class GgufMetadata {
 public:
  void put(std::string_view key, std::string_view value);
  void put(std::string_view key, const char* value) { put(key, std::string_view(value)); }
  void put(std::string_view key, uint32_t value);
  void put(std::string_view key, float value);
  void put(std::string_view key, bool value);
  void put(std::string_view key, std::span<const std::string> values);
  void put(std::string_view key, std::span<const int32_t> values);
  void put(std::string_view key, std::span<const float> values);
  void put(std::string_view key, const std::vector<bool>& values);

  // Appends `count` pairs, encoded as in another file.
  void put_encoded(std::string_view bytes, uint64_t count);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, uint32_t type);
  void begin_array(std::string_view key, uint32_t type, uint64_t size);
  std::string bytes_;
  uint64_t count_ = 0;
};

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> shape;  // outermost first
  uint32_t type;                // ggml_type
  uint64_t bytes;
};

// Tensors begin at multiples of this many bytes unless general.alignment says otherwise.
inline constexpr uint64_t kGgufAlignment = 32;

// Returns everything before the data. The data begins at the next multiple of the alignment: the
// bytes of each tensor in this order, each padded with zeros to a multiple of the alignment.
std::string gguf_header(const GgufMetadata& metadata, std::span<const GgufTensor> tensors,
                        uint64_t alignment = kGgufAlignment);

}  // namespace kvick::io
