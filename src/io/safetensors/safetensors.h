#pragma once
// The safetensors container: https://huggingface.co/docs/safetensors.

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "io/file/model_file.h"

namespace kvick::io {

// Element types: those that kernels read, those of quantised tensors, and those that only tensors
// of other parts of a model have.
enum class StoredType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF8E4M3,
  kI8,
  kU8,
  kI32,
  kI64,
  kF64,
  kF8E5M2,
  kBool,
  kI16,
  kU16,
  kU32,
  kU64
};
struct StoredTypeInfo {
  std::string_view name;  // as the header has it
  uint32_t bytes;         // of one element
  std::optional<kernels::DType> dtype;
};
const StoredTypeInfo& stored_type_info(StoredType type);

struct StoredTensor {
  std::string name;
  StoredType type{};
  std::vector<uint64_t> shape;      // outermost first
  std::span<const std::byte> data;  // borrowed from the image
  std::string label;  // name for messages: "dir/model.safetensors: tensor 'lm_head.weight'"
};

struct Safetensors {
  std::vector<StoredTensor> tensors;         // in order of their bytes in the file
  std::map<std::string, std::string> notes;  // __metadata__
};

// Reads and checks the header. Errors: it is cut off, contradicts itself, or has an unknown type;
// or the tensors do not fill the file without gaps and overlaps, as the format demands.
base::Result<Safetensors> parse_safetensors_image(std::span<const std::byte> image,
                                                  const std::string& name);

// Returns the tensor as it is stored. Error: kernels do not read its type.
base::Result<Tensor> plain_tensor(StoredTensor stored);

}  // namespace kvick::io
