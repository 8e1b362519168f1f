#pragma once
// Tensors to a file, in pieces, from all threads.

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
  void pad_to(uint64_t multiple);  // with zeros
  uint64_t size() const { return size_; }
  void close();  // reports what the destructor could not: a full disk

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Closer> file_;
  std::string path_;
  uint64_t size_ = 0;
};

// A whole small file.
base::Status<> write_text(const std::string& path, std::string_view text);

// Row `row` of a tensor as float32 [inputs]; called from many threads.
using RowSource = std::function<void(const TensorInfo& tensor, uint64_t row, float* out)>;

// Bytes of a tensor in a file.
uint64_t tensor_bytes(const TensorInfo& tensor);

// Writes all rows, encoded, a few megabytes at a time.
void write_tensor(OutputFile& file, const TensorInfo& tensor, const RowSource& source,
                  base::ThreadPool& pool);

}  // namespace kvick::tools
