#include "quantize/output_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace kvick::quantize {

base::Result<OutputFile> OutputFile::open(const std::string& path) {
  OutputFile file;
  file.path_ = path;
  const std::string part = file.part_name();
  const int fd = ::open(part.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return file.failure();
  const int locked = flock(fd, LOCK_EX | LOCK_NB);
  // Another process may have renamed or deleted the part before it was locked here.
  struct stat ours {
  }, named{};
  const bool same = locked == 0 && fstat(fd, &ours) == 0 && stat(part.c_str(), &named) == 0 &&
                    ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
  if (!same && (locked == 0 || errno == EWOULDBLOCK)) {
    ::close(fd);
    return base::fail("cannot write {}: another process is writing it", path);
  }
  // On a file system without locks, two processes are not kept apart.
  if (ftruncate(fd, 0) == 0) file.file_.reset(fdopen(fd, "wb"));
  if (file.file_) return file;
  const base::Error error = file.failure();
  ::close(fd);
  return error;
}

OutputFile::~OutputFile() {
  if (file_ == nullptr) return;  // finished, or moved from
  std::error_code none;
  std::filesystem::remove(part_name(), none);  // before the lock is released
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
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) return failure();
  std::error_code error;
  std::filesystem::rename(part_name(), path_, error);
  if (error) return base::fail("cannot write {}: {}", path_, error.message());
  file_.reset();
  return base::Done{};
}

}  // namespace kvick::quantize
