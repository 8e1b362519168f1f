#pragma once
// Writes tensors to a file in pieces, computed by all threads.

#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "make_model/spec.h"

#include "base/result.h"
#include "base/thread_pool.h"
#include "kernels/formats/dtype.h"

namespace kvick::tools {

// A file being written. Errors of open() are the user's (path, permission); a failing write throws
// std::system_error.
class OutputFile {
 public:
  static base::Result<OutputFile> open(const std::string& path);
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  void pad_to(uint64_t multiple);  // adds zeros up to a multiple
  uint64_t size() const { return size_; }
  void close();  // throws if the disk is full, which the destructor could not report

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closer> file_;
  std::string path_;
  uint64_t size_ = 0;
};

// Writes a small text file.
base::Status<> write_text(const std::string& path, std::string_view text);

// Writes row `row` of a tensor as float32 [inputs]; called from many threads.
using RowSource = std::function<void(const TensorInfo& tensor, uint64_t row, float* out)>;

// Returns the bytes of a tensor in a file.
uint64_t tensor_bytes(const TensorInfo& tensor);

// Encodes and writes all rows, a few megabytes at a time.
void write_tensor(OutputFile& file, const TensorInfo& tensor, const RowSource& source,
                  base::ThreadPool& pool);

}  // namespace kvick::tools
