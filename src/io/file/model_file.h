#pragma once
// A model on disk as what it says about itself and named tensors, whatever the container: GGUF, or
// a Hugging Face folder. Tensor names and metadata keys come out in GGUF's vocabulary, so that
// models/ knows one.

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
#include "io/file/tensor.h"
#include "kernels/formats/dtype.h"

namespace kvick::io {

struct Value;
using Array = std::vector<Value>;
// GGUF's thirteen value types in fewer: all unsigned integers are uint64_t, all signed int64_t,
// both floats double. Arrays: of integers, int64_t, or uint64_t where an element needs it; of
// float32, float; of arrays, Array.
struct Value {
  std::variant<uint64_t, int64_t, double, bool, std::string, Array, std::vector<std::string>,
               std::vector<int64_t>, std::vector<float>, std::vector<uint64_t>, std::vector<double>,
               std::vector<bool>>
      data;
};
using Metadata = std::map<std::string, Value, std::less<>>;

enum class Container { kGguf, kHuggingFace, kSafetensors };

// Move-only; holds the mapped files. Beside the file's own keys, metadata() has
// kvick.rope.interleaved (bool) of Hugging Face folders: true if the rows of attn_q and attn_k are
// ordered for rotating neighbours (2i, 2i+1), false if for halves (i, i + head_dim/2). In GGUF
// files that follows from the architecture, unless they have this key.
class ModelFile {
 public:
  // path: a .gguf file, the first part of a split one (its other parts lie beside it), or a Hugging
  // Face folder with config.json. Reads and checks all headers, no tensor data. Errors name the
  // file and the field.
  static base::Result<ModelFile> open(const std::string& path);
  // As open, but also takes incomplete models: one safetensors file, or one part of a split GGUF,
  // as it is stored.
  static base::Result<ModelFile> open_for_inspection(const std::string& path);
  // Images in memory; what the fuzzers call. The bytes must outlive the result.
  static base::Result<ModelFile> parse_gguf(std::span<const std::byte> image,
                                            const std::string& name);
  static base::Result<ModelFile> parse_safetensors(std::span<const std::byte> image,
                                                   const std::string& name);

  Container container() const { return container_; }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }  // of all files that hold tensors
  uint32_t version() const { return version_; }        // GGUF's
  const Metadata& metadata() const { return metadata_; }
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;  // null if absent

  // Typed look-ups. Missing: the fallback, or an Error that names the key; of another type or out
  // of range: an Error. Integers serve as floats, and non-negative signed integers as unsigned
  // ones.
  base::Result<uint64_t> get_uint(std::string_view key) const;
  base::Result<uint64_t> get_uint(std::string_view key, uint64_t fallback) const;
  // `count` numbers, one per layer: from one number for all, or an array of numbers or booleans.
  base::Result<std::vector<uint64_t>> get_uint_each(std::string_view key, size_t count) const;
  bool is_array(std::string_view key) const;
  base::Result<double> get_float(std::string_view key) const;
  base::Result<double> get_float(std::string_view key, double fallback) const;
  base::Result<bool> get_bool(std::string_view key, bool fallback) const;
  base::Result<std::string> get_string(std::string_view key) const;
  base::Result<std::string> get_string(std::string_view key, std::string fallback) const;
  const std::vector<std::string>* get_strings(
      std::string_view key) const;  // null if absent or of another type
  const std::vector<int64_t>* get_ints(std::string_view key) const;
  const std::vector<float>* get_floats(std::string_view key) const;

  // Gives the pages of a tensor or of its source back to the system once it has been repacked.
  void drop_pages(const Tensor& tensor) const;

 private:
  friend struct ModelFileBuilder;
  void drop_bytes(std::span<const std::byte> bytes) const;
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
