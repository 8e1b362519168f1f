#pragma once
// Stored tensors for tests, which own their bytes.

#include <cstring>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "io/file/tensor.h"
#include "io/safetensors/safetensors.h"
#include "kernels/formats/dtype.h"

namespace kvick::io {

class TestTensors {
 public:
  template <typename T>
  StoredTensor& add(const std::string& name, StoredType type, std::vector<uint64_t> shape,
                    const std::vector<T>& values) {
    auto& bytes = bytes_.emplace_back(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return all.emplace_back(StoredTensor{.name = name,
                                         .type = type,
                                         .shape = std::move(shape),
                                         .data = bytes,
                                         .label = "test: tensor '" + name + "'"});
  }
  // Adds a tensor of this shape with random bytes.
  StoredTensor& random(const std::string& name, StoredType type,
                       const std::vector<uint64_t>& shape) {
    uint64_t bytes = stored_type_info(type).bytes;
    for (const uint64_t size : shape) bytes *= size;
    std::vector<uint8_t> values(bytes);
    for (uint8_t& value : values) value = static_cast<uint8_t>(engine());
    return add(name, type, shape, values);
  }
  // Adds float16 scales of about 0.01 to 0.02.
  StoredTensor& scales(const std::string& name, const std::vector<uint64_t>& shape) {
    uint64_t count = 1;
    for (const uint64_t size : shape) count *= size;
    std::vector<uint16_t> values(count);
    for (uint16_t& value : values) value = static_cast<uint16_t>(0x2100 + engine() % 0x400);
    return add(name, StoredType::kF16, shape, values);
  }
  StoredTensor* find(const std::string& name) {
    for (StoredTensor& tensor : all)
      if (tensor.name == name) return &tensor;
    return nullptr;
  }
  std::vector<StoredTensor> list() const { return {all.begin(), all.end()}; }

  std::deque<StoredTensor> all;
  std::mt19937 engine{7};

 private:
  std::deque<std::vector<std::byte>> bytes_;
};

inline std::vector<float> floats_of(const Tensor& tensor) {
  std::vector<float> values(tensor.elements());
  tensor.read_floats(values.data());
  return values;
}

inline uint32_t word(const StoredTensor& tensor, uint64_t index) {
  uint32_t value = 0;
  std::memcpy(&value, tensor.data.data() + index * sizeof(value), sizeof(value));
  return value;
}

inline float half(const StoredTensor& tensor, uint64_t index) {
  uint16_t value = 0;
  std::memcpy(&value, tensor.data.data() + index * sizeof(value), sizeof(value));
  return kernels::f16_to_f32(value);
}

}  // namespace kvick::io
