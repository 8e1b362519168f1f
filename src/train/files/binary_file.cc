#include "train/files/binary_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "train/settings/mistake.h"

namespace kvick::train {

BinaryWriter::BinaryWriter(std::string path)
    : path_(std::move(path)), part_(text_of(path_, ".", getpid(), ".part")) {
  file_.reset(std::fopen(part_.c_str(), "wb"));
  if (!file_) refuse(path_, ": cannot be written: ", std::strerror(errno));
}

BinaryWriter::~BinaryWriter() {
  if (!file_) return;
  file_.reset();
  std::remove(part_.c_str());
}

void BinaryWriter::raw(const void* bytes, size_t count) {
  if (count != 0 && std::fwrite(bytes, 1, count, file_.get()) != count)
    throw std::system_error(errno, std::generic_category(), path_);
  bytes_ += count;
}

void BinaryWriter::pad_to(uint64_t multiple) {
  const std::string zeros((multiple - bytes_ % multiple) % multiple, '\0');
  raw(zeros.data(), zeros.size());
}

void BinaryWriter::finish() {
  if (std::fflush(file_.get()) != 0 || ::fsync(fileno(file_.get())) != 0)
    throw std::system_error(errno, std::generic_category(), path_);
  file_.reset();
  std::filesystem::rename(part_, path_);
}

BinaryReader::BinaryReader(const std::string& path, std::string_view magic, const char* what)
    : path_(path) {
  file_.reset(std::fopen(path.c_str(), "rb"));
  if (!file_) refuse(path, ": cannot be read: ", std::strerror(errno));
  std::error_code error;
  left_ = std::filesystem::file_size(path, error);
  std::string begin(magic.size(), '\0');
  if (error || left_ < magic.size() ||
      std::fread(begin.data(), 1, begin.size(), file_.get()) != begin.size() || begin != magic)
    refuse(path, ": is no ", what);
  left_ -= magic.size();
}

void BinaryReader::raw(void* bytes, size_t count) {
  if (count > left_ || (count != 0 && std::fread(bytes, 1, count, file_.get()) != count))
    refuse(path_, ": ends too early; it is not whole");
  left_ -= count;
}

size_t BinaryReader::items(size_t bytes_each) {
  const auto count = number<uint64_t>();
  if (count > left_ / bytes_each) refuse(path_, ": ends too early; it is not whole");
  return count;
}

std::string BinaryReader::string() {
  std::string value(items(1), '\0');
  raw(value.data(), value.size());
  return value;
}

void BinaryReader::end() const {
  if (left_ != 0) refuse(path_, ": goes on where it should end");
}

void write_text(const std::string& path, std::string_view text) {
  BinaryWriter out(path);
  out.raw(text.data(), text.size());
  out.finish();
}

}  // namespace kvick::train
