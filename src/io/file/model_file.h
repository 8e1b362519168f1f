#pragma once
// A model on disk as metadata and named tensors, whatever its container: GGUF or a Hugging Face
// folder. Tensor names and metadata keys are GGUF's, so that models/ needs only one vocabulary.

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
// A value of the metadata. GGUF's thirteen types become fewer: all unsigned integers are uint64_t,
// all signed ones int64_t, both floats double. Arrays of integers hold int64_t, or uint64_t if an
// element needs it; arrays of float32 hold float; arrays of arrays are Array.
struct Value {
  std::variant<uint64_t, int64_t, double, bool, std::string, Array, std::vector<std::string>,
               std::vector<int64_t>, std::vector<float>, std::vector<uint64_t>, std::vector<double>,
               std::vector<bool>>
      data;
};
using Metadata = std::map<std::string, Value, std::less<>>;

enum class Container { kGguf, kHuggingFace, kSafetensors };

// Move-only; owns the mapped files. In addition to the file's own keys, metadata() of Hugging Face
// folders has kvick.rope.interleaved (bool): true if the rows of attn_q and attn_k are ordered for
// rotating neighbours (2i, 2i+1), false if for halves (i, i + head_dim/2). In GGUF files the order
// follows from the architecture, unless they have this key.
class ModelFile {
 public:
  // Reads and checks all headers, but no tensor data. path: a .gguf file, the first part of a split
  // one (the other parts must be beside it), or a Hugging Face folder with config.json. Errors name
  // the file and the field.
  static base::Result<ModelFile> open(const std::string& path);
  // Like open, but also accepts incomplete models: one safetensors file or one part of a split
  // GGUF, as it is stored.
  static base::Result<ModelFile> open_for_inspection(const std::string& path);
  // Read images in memory, for the fuzzers. The bytes must outlive the result.
  static base::Result<ModelFile> parse_gguf(std::span<const std::byte> image,
                                            const std::string& name);
  static base::Result<ModelFile> parse_safetensors(std::span<const std::byte> image,
                                                   const std::string& name);

  Container container() const { return container_; }
  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }  // of all files with tensors
  uint32_t version() const { return version_; }        // the version of GGUF
  const Metadata& metadata() const { return metadata_; }
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor* find(std::string_view name) const;  // nullptr if absent

  // Typed look-ups. An absent key gives the fallback or, without one, an Error that names the key.
  // A value of another type or out of range is an Error. Integers are accepted as floats, and
  // non-negative signed integers as unsigned ones.
  base::Result<uint64_t> get_uint(std::string_view key) const;
  base::Result<uint64_t> get_uint(std::string_view key, uint64_t fallback) const;
  // Returns `count` numbers, one per layer, from a single number or an array of numbers or
  // booleans.
  base::Result<std::vector<uint64_t>> get_uint_each(std::string_view key, size_t count) const;
  bool is_array(std::string_view key) const;
  base::Result<double> get_float(std::string_view key) const;
  base::Result<double> get_float(std::string_view key, double fallback) const;
  base::Result<bool> get_bool(std::string_view key, bool fallback) const;
  base::Result<std::string> get_string(std::string_view key) const;
  base::Result<std::string> get_string(std::string_view key, std::string fallback) const;
  const std::vector<std::string>* get_strings(
      std::string_view key) const;  // nullptr if absent or of another type
  const std::vector<int64_t>* get_ints(std::string_view key) const;
  const std::vector<float>* get_floats(std::string_view key) const;

  // Returns the pages of a tensor or of its source to the system after it has been repacked.
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
