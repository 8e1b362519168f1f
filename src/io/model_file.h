#pragma once
// A model on disk as what it says about itself and named tensors, whatever the container: GGUF, or a Hugging Face
// folder. Tensor names and metadata keys come out in GGUF's vocabulary, so that models/ knows one.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/memory.h"
#include "base/result.h"
#include "kernels/dtype.h"

namespace kvick::io {

struct Value;
using Array = std::vector<Value>;
// GGUF's thirteen value types in six: all unsigned integers are uint64_t, all signed int64_t, both floats double.
struct Value {
  std::variant<uint64_t, int64_t, double, bool, std::string, Array, std::vector<std::string>,
               std::vector<int64_t>, std::vector<float>>
      data;
};
using Metadata = std::map<std::string, Value, std::less<>>;

struct Tensor {
  std::string name;
  kernels::DType dtype{};
  std::vector<uint64_t> shape;           // outermost first: {rows, inputs}
  std::span<const std::byte> data;       // borrowed from the ModelFile
  uint64_t elements() const {
    uint64_t n = 1;
    for (const uint64_t d : shape) n *= d;
    return n;
  }
};

enum class Container { kGguf, kHuggingFace };

// Move-only; holds the mapped files.
class ModelFile {
 public:
  // path: a .gguf file, a .safetensors file's folder, or a folder with config.json. Reads and checks all headers, no
  // tensor data. Errors name the file and the field.
  static base::Result<ModelFile> open(const std::string& path);
  // A GGUF image in memory; what the fuzzer calls. The bytes must outlive the result.
  static base::Result<ModelFile> parse_gguf(std::span<const std::byte> image, const std::string& name);

  Container container() const { return container_; }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }  // of all files that hold tensors
  uint32_t version() const { return version_; }        // GGUF's
  const Metadata& metadata() const { return metadata_; }
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;  // null if absent

  // Typed look-ups. Missing: nullopt or an Error that names the key; of another type or out of range: an Error.
  base::Result<uint64_t> get_uint(std::string_view key) const;
  base::Result<uint64_t> get_uint(std::string_view key, uint64_t fallback) const;
  base::Result<double> get_float(std::string_view key) const;
  base::Result<double> get_float(std::string_view key, double fallback) const;
  base::Result<bool> get_bool(std::string_view key, bool fallback) const;
  base::Result<std::string> get_string(std::string_view key) const;
  base::Result<std::string> get_string(std::string_view key, std::string fallback) const;
  const std::vector<std::string>* get_strings(std::string_view key) const;  // null if absent or of another type
  const std::vector<int64_t>* get_ints(std::string_view key) const;
  const std::vector<float>* get_floats(std::string_view key) const;

  // Gives a tensor's pages back to the system once it has been repacked.
  void drop_pages(const Tensor& tensor) const;

 private:
  friend struct ModelFileBuilder;
  Container container_ = Container::kGguf;
  std::string path_;
  uint64_t file_bytes_ = 0;
  uint32_t version_ = 0;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::vector<base::MappedFile> files_;
};

}  // namespace kvick::io
