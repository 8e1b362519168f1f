#include "io/packed/packed_writer.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace kvick::io {
namespace {

using base::fail;

// Writes all bytes. Returns 0 or the system's error.
int write_at(int fd, std::span<const std::byte> bytes, uint64_t at) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    bytes = bytes.subspan(static_cast<size_t>(n));
    at += static_cast<uint64_t>(n);
  }
  return 0;
}

// A rename is on disk once its folder is synchronised. If the folder cannot be synchronised, a
// crash may lose this file, but nothing else.
void sync_folder(const std::filesystem::path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  fsync(fd);
  ::close(fd);
}

}  // namespace

PackedWriter::PackedWriter(std::filesystem::path path, PackedPlan plan, int fd)
    : path_(std::move(path)), plan_(std::move(plan)), fd_(fd), tail_(kPackedPiece) {
  sums_.resize(plan_.pieces);
}

base::Result<PackedWriter> PackedWriter::create(std::filesystem::path path, PackedPlan plan) {
  const std::filesystem::path part = path.string() + ".part";
  const int fd = ::open(part.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) return fail("cannot write {}: {}", part.string(), std::strerror(errno));
  PackedWriter writer(std::move(path), std::move(plan), fd);
  const int locked = flock(fd, LOCK_EX | LOCK_NB);
  const int error = errno;
  // Another process may have renamed or deleted the part before it was locked here. In this case
  // the open file is no longer the part.
  struct stat ours {
  }, named{};
  const bool same = locked == 0 && fstat(fd, &ours) == 0 && stat(part.c_str(), &named) == 0 &&
                    ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
  if (same) {
    if (ftruncate(fd, 0) == 0) return writer;
    return fail("cannot cut {}: {}", part.string(), std::strerror(errno));
  }
  writer.fd_ = -1;  // the part belongs to another writer, which deletes it
  ::close(fd);
  if (locked != 0 && error != EWOULDBLOCK)
    return fail("cannot lock {}: {}", part.string(), std::strerror(error));
  return fail("another process is packing the same weights");
}

PackedWriter::~PackedWriter() {
  if (fd_ < 0) return;
  unlink(part().c_str());  // before the lock is released
  ::close(fd_);
}

void PackedWriter::swap(PackedWriter& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(plan_, other.plan_);
  std::swap(fd_, other.fd_);
  std::swap(matrix_, other.matrix_);
  std::swap(in_matrix_, other.in_matrix_);
  std::swap(written_, other.written_);
  std::swap(tail_, other.tail_);
  std::swap(tail_bytes_, other.tail_bytes_);
  std::swap(sums_, other.sums_);
}

// bytes: whole pieces, or everything up to the end of the data.
base::Status<> PackedWriter::write_pieces(std::span<const std::byte> bytes,
                                          base::ThreadPool& pool) {
  const size_t first = written_ / kPackedPiece;
  std::atomic<int> error = 0;
  const size_t count = (bytes.size() + kPackedPiece - 1) / kPackedPiece;
  pool.parallel_for(count, 1, [&](size_t begin, size_t end, unsigned) {
    for (size_t i = begin; i < end && error == 0; ++i) {
      const size_t at = i * kPackedPiece;
      const auto piece = bytes.subspan(at, std::min(kPackedPiece, bytes.size() - at));
      sums_[first + i] = piece_sum(piece, first + i);
      if (const int code = write_at(fd_, piece, plan_.head_bytes + written_ + at); code != 0)
        error = code;
    }
  });
  if (error != 0) return fail("cannot write {}: {}", part().string(), std::strerror(error));
  written_ += bytes.size();
  return base::Done{};
}

base::Status<> PackedWriter::append(std::span<const std::byte> bytes, base::ThreadPool& pool) {
  if (matrix_ < plan_.sizes.size() && in_matrix_ == plan_.sizes[matrix_]) ++matrix_, in_matrix_ = 0;
  KVICK_CHECK(matrix_ < plan_.sizes.size() && bytes.size() <= plan_.sizes[matrix_] - in_matrix_,
              "{} bytes for matrix {} of {}", bytes.size(), matrix_, plan_.sizes.size());
  const uint64_t place = plan_.offsets[matrix_] + in_matrix_;  // zeros fill the gap before it
  in_matrix_ += bytes.size();
  const size_t gap = place - (written_ + tail_bytes_);
  for (size_t i = 0; i < gap; ++i) {
    tail_.data()[tail_bytes_++] = std::byte{0};
    if (tail_bytes_ == kPackedPiece) {
      KVICK_TRY_VOID(write_pieces({tail_.data(), kPackedPiece}, pool));
      tail_bytes_ = 0;
    }
  }
  if (tail_bytes_ > 0) {
    const size_t n = std::min(bytes.size(), kPackedPiece - tail_bytes_);
    std::copy_n(bytes.data(), n, tail_.data() + tail_bytes_);
    tail_bytes_ += n;
    bytes = bytes.subspan(n);
    if (tail_bytes_ < kPackedPiece) return base::Done{};
    KVICK_TRY_VOID(write_pieces({tail_.data(), kPackedPiece}, pool));
    tail_bytes_ = 0;
  }
  const size_t whole = bytes.size() / kPackedPiece * kPackedPiece;
  KVICK_TRY_VOID(write_pieces(bytes.first(whole), pool));
  tail_bytes_ = bytes.size() - whole;
  std::copy_n(bytes.data() + whole, tail_bytes_, tail_.data());
  return base::Done{};
}

base::Status<> PackedWriter::finish() {
  const size_t last = plan_.sizes.size();
  KVICK_CHECK(last == 0 || (matrix_ + 1 == last && in_matrix_ == plan_.sizes[matrix_]),
              "matrix {} of {} is not whole", matrix_, last);
  base::ThreadPool alone(1);
  std::fill(tail_.data() + tail_bytes_, tail_.data() + (plan_.data_bytes - written_), std::byte{0});
  KVICK_TRY_VOID(write_pieces({tail_.data(), plan_.data_bytes - written_}, alone));
  int error = write_at(fd_, packed_head(plan_, sums_), 0);
  if (error == 0 && fsync(fd_) != 0) error = errno;
  if (error == 0 && std::rename(part().c_str(), path_.c_str()) != 0) error = errno;
  if (error != 0) return fail("cannot write {}: {}", path_.string(), std::strerror(error));
  ::close(fd_);
  fd_ = -1;
  sync_folder(path_.parent_path());
  return base::Done{};
}

}  // namespace kvick::io
