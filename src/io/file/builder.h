#pragma once
// What the readers of the containers share: filling a ModelFile, and naming what a file says inside
// a message.

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "io/file/model_file.h"

namespace kvick::io {

// Text from a file, for a message of one line: quoted, control characters and bad bytes escaped,
// cut at 60 bytes.
std::string in_quotes(std::string_view text);

// Fills a ModelFile piece by piece; finish() hands it over.
struct ModelFileBuilder {
  explicit ModelFileBuilder(Container container, std::string path) {
    file.container_ = container;
    file.path_ = std::move(path);
  }
  // Continues a file that has been read in part.
  explicit ModelFileBuilder(ModelFile begun) : file(std::move(begun)) {}

  Metadata& metadata() { return file.metadata_; }
  void set_version(uint32_t version) { file.version_ = version; }
  void add_file_bytes(uint64_t bytes) { file.file_bytes_ += bytes; }
  void hold(base::MappedFile mapped) { file.files_.push_back(std::move(mapped)); }
  void reserve_tensors(size_t count) { file.tensors_.reserve(count); }
  // Tensors are numbered in the order of their adding. Error: a second one of that name.
  base::Status<> add_tensor(Tensor tensor);
  // Another file's tensors, with the bytes that they borrow. Error: a second one of a name.
  base::Status<> take(ModelFile part);
  std::span<Tensor> tensors() { return file.tensors_; }
  ModelFile finish() { return std::move(file); }

  ModelFile file;
};

// Hugging Face folders; see huggingface.cc.
base::Result<ModelFile> open_huggingface(const std::string& folder);
// The whole of a split GGUF from its first part; see split.cc.
base::Result<ModelFile> open_split_gguf(ModelFile first, uint64_t parts);

}  // namespace kvick::io
