#pragma once
// Shared by the readers of all containers: fills a ModelFile, and quotes a file's text in messages.

#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "io/file/model_file.h"

namespace kvick::io {

// Returns text from a file for a message of one line: in quotes, with control characters and bad
// bytes escaped, cut at 60 bytes.
std::string in_quotes(std::string_view text);

// Fills a ModelFile step by step; finish() returns it.
struct ModelFileBuilder {
  explicit ModelFileBuilder(Container container, std::string path) {
    file.container_ = container;
    file.path_ = std::move(path);
  }
  // Continues with a file that has been read in part.
  explicit ModelFileBuilder(ModelFile begun) : file(std::move(begun)) {}

  Metadata& metadata() { return file.metadata_; }
  void set_version(uint32_t version) { file.version_ = version; }
  void add_file_bytes(uint64_t bytes) { file.file_bytes_ += bytes; }
  void hold(base::MappedFile mapped) { file.files_.push_back(std::move(mapped)); }
  void reserve_tensors(size_t count) { file.tensors_.reserve(count); }
  // Tensors are numbered in the order in which they are added. Error: the name exists already.
  base::Status<> add_tensor(Tensor tensor);
  // Adds the tensors of another file, and the mapped files that they borrow from. Error: a name
  // exists already.
  base::Status<> take(ModelFile part);
  std::span<Tensor> tensors() { return file.tensors_; }
  ModelFile finish() { return std::move(file); }

  ModelFile file;
};

// Opens a Hugging Face folder; see huggingface.cc.
base::Result<ModelFile> open_huggingface(const std::string& folder);
// Opens all parts of a split GGUF file, given the first; see split.cc.
base::Result<ModelFile> open_split_gguf(ModelFile first, uint64_t parts);

}  // namespace kvick::io
