#pragma once
// Writes GGUF version 3, as the format's specification (ggml/docs/gguf.md) describes it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "make_model/output.h"
#include "make_model/vocabulary.h"

namespace kvick::tools {

// The metadata part, in the order of the calls.
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

  // Pairs as they stand in another file, `count` of them.
  void put_encoded(std::string_view bytes, uint64_t count);

  uint64_t count() const { return count_; }
  const std::string& bytes() const { return bytes_; }

 private:
  void begin(std::string_view key, uint32_t type);
  void begin_array(std::string_view key, uint32_t type, uint64_t size);
  std::string bytes_;
  uint64_t count_ = 0;
};

// The tokenizer.ggml.* keys.
void put_vocabulary(const MadeVocabulary& vocabulary, GgufMetadata& metadata);

// Tensors begin at multiples of this unless general.alignment says otherwise.
inline constexpr uint64_t kGgufAlignment = 32;

// Header, metadata, tensor infos and data. alignment: what the metadata says.
base::Status<> write_gguf(const std::string& path, const GgufMetadata& metadata,
                          std::span<const TensorInfo> tensors, const RowSource& source,
                          base::ThreadPool& pool, uint64_t alignment = kGgufAlignment);

// llama_ftype, the value of general.file_type: "mostly of this type".
uint32_t gguf_file_type(kernels::DType type);

// A made model; what `make_model --format gguf` writes.
base::Status<> make_gguf(const std::string& path, const Spec& spec, base::ThreadPool& pool);

}  // namespace kvick::tools
