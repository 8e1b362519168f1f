#include "io/gguf/gguf_writer.h"

namespace kvick::io {
namespace {

constexpr uint32_t kUint32 = 4, kInt32 = 5, kFloat32 = 6, kBool = 7, kString = 8, kArray = 9;
constexpr uint32_t kVersion = 3;

template <typename T>
void append(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& to, std::string_view text) {
  append(to, static_cast<uint64_t>(text.size()));
  to.append(text);
}

}  // namespace

void GgufMetadata::begin(std::string_view key, uint32_t type) {
  append_text(bytes_, key);
  append(bytes_, type);
  ++count_;
}

void GgufMetadata::begin_array(std::string_view key, uint32_t type, uint64_t size) {
  begin(key, kArray);
  append(bytes_, type);
  append(bytes_, size);
}

void GgufMetadata::put(std::string_view key, std::string_view value) {
  begin(key, kString);
  append_text(bytes_, value);
}
void GgufMetadata::put(std::string_view key, uint32_t value) {
  begin(key, kUint32);
  append(bytes_, value);
}
void GgufMetadata::put(std::string_view key, float value) {
  begin(key, kFloat32);
  append(bytes_, value);
}
void GgufMetadata::put(std::string_view key, bool value) {
  begin(key, kBool);
  append(bytes_, static_cast<uint8_t>(value));
}
void GgufMetadata::put(std::string_view key, std::span<const std::string> values) {
  begin_array(key, kString, values.size());
  for (const std::string& value : values) append_text(bytes_, value);
}
void GgufMetadata::put(std::string_view key, std::span<const int32_t> values) {
  begin_array(key, kInt32, values.size());
  for (const int32_t value : values) append(bytes_, value);
}
void GgufMetadata::put(std::string_view key, std::span<const float> values) {
  begin_array(key, kFloat32, values.size());
  for (const float value : values) append(bytes_, value);
}

void GgufMetadata::put(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, kBool, values.size());
  for (const bool value : values) append(bytes_, static_cast<uint8_t>(value));
}

void GgufMetadata::put_encoded(std::string_view bytes, uint64_t count) {
  bytes_.append(bytes);
  count_ += count;
}

std::string gguf_header(const GgufMetadata& metadata, std::span<const GgufTensor> tensors,
                        uint64_t alignment) {
  std::string out = "GGUF";
  append(out, kVersion);
  append(out, static_cast<uint64_t>(tensors.size()));
  append(out, metadata.count());
  out += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufTensor& tensor : tensors) {
    append_text(out, tensor.name);
    append(out, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t d = tensor.shape.size(); d-- > 0;) append(out, tensor.shape[d]);  // innermost first
    append(out, tensor.type);
    append(out, offset);
    offset = (offset + tensor.bytes + alignment - 1) / alignment * alignment;
  }
  return out;
}

}  // namespace kvick::io
