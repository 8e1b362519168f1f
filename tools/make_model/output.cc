#include "make_model/output.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "make_model/encode.h"

namespace kvick::tools {

base::Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile file;
  file.file_.reset(std::fopen(path.c_str(), "wb"));
  if (!file.file_) return base::fail("{}: cannot be written: {}", path, std::strerror(errno));
  file.path_ = path;
  return file;
}

void OutputFile::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;  // fwrite must not get a null pointer
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size())
    throw std::system_error(errno, std::generic_category(), path_);
  size_ += bytes.size();
}

void OutputFile::pad_to(uint64_t multiple) {
  const std::vector<std::byte> zeros((multiple - size_ % multiple) % multiple);
  write(zeros);
}

void OutputFile::close() {
  if (std::fclose(file_.release()) != 0)
    throw std::system_error(errno, std::generic_category(), path_);
}

base::Status<> write_text(const std::string& path, std::string_view text) {
  KVICK_TRY(OutputFile file, OutputFile::open(path));
  file.write(text);
  file.close();
  return base::Done{};
}

uint64_t tensor_bytes(const TensorInfo& tensor) {
  return kernels::dtype_bytes(tensor.type, tensor.inputs()) * tensor.rows();
}

void write_tensor(OutputFile& file, const TensorInfo& tensor, const RowSource& source,
                  base::ThreadPool& pool) {
  constexpr uint64_t kPieceBytes = 4 << 20;
  const uint64_t row_bytes = kernels::dtype_bytes(tensor.type, tensor.inputs());
  const uint64_t piece_rows = std::max<uint64_t>(1, kPieceBytes / row_bytes);
  std::vector<std::byte> encoded(std::min(piece_rows, tensor.rows()) * row_bytes);
  std::vector<std::vector<float>> rows(pool.size(), std::vector<float>(tensor.inputs()));
  for (uint64_t first = 0; first < tensor.rows(); first += piece_rows) {
    const uint64_t count = std::min(piece_rows, tensor.rows() - first);
    pool.parallel_for(count, 8, [&](size_t begin, size_t end, unsigned worker) {
      for (size_t i = begin; i < end; ++i) {
        source(tensor, first + i, rows[worker].data());
        encode(tensor.type, rows[worker].data(), tensor.inputs(), encoded.data() + i * row_bytes);
      }
    });
    file.write(std::span(encoded).first(count * row_bytes));
  }
}

}  // namespace kvick::tools
