#include "quantize/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

namespace kvick::quantize {

base::Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  file.file_.reset(std::fopen(file.part_name().c_str(), "wb"));
  if (!file.file_) return file.failure();
  return file;
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;  // finished, or moved from
  file_.reset();
  std::error_code none;
  std::filesystem::remove(part_name(), none);
}

base::Error OutputFile::failure() const {
  return base::fail("cannot write {}: {}", path_, std::strerror(errno));
}

base::Status<> OutputFile::write(std::span<const std::byte> bytes) {
  if (bytes.empty()) return base::Done{};  // fwrite takes no null pointer
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return failure();
  size_ += bytes.size();
  return base::Done{};
}

base::Status<> OutputFile::pad_to(uint64_t multiple) {
  const std::vector<std::byte> zeros((multiple - size_ % multiple) % multiple);
  return write(zeros);
}

base::Status<> OutputFile::finish() {
  if (std::fflush(file_.get()) != 0) return failure();
  std::error_code error;
  std::filesystem::rename(part_name(), path_, error);
  if (error) return base::fail("cannot write {}: {}", path_, error.message());
  file_.reset();
  return base::Done{};
}

}  // namespace kvick::quantize
