#include "cli/transfer/part_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "cli/terminal/progress.h"
#include "cli/transfer/failure.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_on(const fs::path& path, const char* verb, int error) {
  if (error == ENOSPC || error == EDQUOT)
    throw failure("the disk is full: {} of {} are free; make room and run the same command again",
                  amount_text(static_cast<double>(free_bytes(path)), Unit::kBytes),
                  path.parent_path().string());
  throw failure("cannot {} {}: {}", verb, path.string(), std::strerror(error));
}

int open_file(const fs::path& path, int flags) {
  const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) fail_on(path, "open", errno);
  return fd;
}

// Returns whether the path still names the open file: the previous owner of the lock may have
// renamed or removed it.
bool is_named(int fd, const fs::path& path) {
  struct stat opened {
  }, named{};
  return ::fstat(fd, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

void lock(int fd, const fs::path& path, base::FunctionRef<void()> waiting, bool& said) {
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK && !std::exchange(said, true)) waiting();
  while (::flock(fd, LOCK_EX) != 0)
    if (errno != EINTR) fail_on(path, "lock", errno);
}

void flush(int fd, const fs::path& path) {
  if (::fsync(fd) != 0) fail_on(path, "write", errno);
}

fs::path beside(const fs::path& target, const char* suffix) {
  return target.parent_path() / ("." + target.filename().string() + suffix);
}

}  // namespace

PartFile PartFile::open(const fs::path& target, base::FunctionRef<void()> waiting) {
  std::error_code error;
  fs::create_directories(target.parent_path(), error);
  if (error)
    throw failure("cannot make the folder {}: {}", target.parent_path().string(), error.message());
  fs::path part = beside(target, ".part");
  for (bool said = false;;) {
    const int fd = open_file(part, O_RDWR | O_CREAT | O_NOFOLLOW);
    lock(fd, part, waiting, said);
    if (!is_named(fd, part)) {
      ::close(fd);
      continue;
    }
    PartFile out(target, part, fd);
    struct stat stat {};
    if (::fstat(fd, &stat) != 0) fail_on(part, "read", errno);
    out.size_ = out.inherited_ = static_cast<uint64_t>(stat.st_size);
    if (out.size_ == 0) out.hash_.emplace();
    return out;
  }
}

PartFile::PartFile(fs::path target, fs::path part, int fd)
    : target_(std::move(target)),
      part_(std::move(part)),
      origin_(beside(target_, ".part.json")),
      fd_(fd) {}

PartFile::PartFile(PartFile&& other) noexcept
    : target_(std::move(other.target_)),
      part_(std::move(other.part_)),
      origin_(std::move(other.origin_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      inherited_(other.inherited_),
      hash_(std::move(other.hash_)) {}

PartFile::~PartFile() {
  if (fd_ < 0) return;
  if (size_ == 0 || !origin()) {
    ::unlink(origin_.c_str());
    ::unlink(part_.c_str());
  }
  ::close(fd_);
}

std::optional<Origin> PartFile::origin() const {
  std::ifstream in(origin_);
  const auto json = nlohmann::json::parse(in, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  const auto url = json.find("url"), validator = json.find("validator"), total = json.find("total");
  if (url == json.end() || !url->is_string() || validator == json.end() ||
      !validator->is_string() || total == json.end() || !total->is_number_unsigned())
    return std::nullopt;
  return Origin{*url, *validator, *total};
}

void PartFile::set_origin(const Origin& origin) {
  const nlohmann::json json = {
      {"url", origin.url}, {"validator", origin.validator}, {"total", origin.total}};
  const fs::path fresh = origin_.string() + ".new";
  std::ofstream out(fresh, std::ios::trunc);
  out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
  out.close();
  if (!out) fail_on(fresh, "write", errno);
  if (::rename(fresh.c_str(), origin_.c_str()) != 0) fail_on(origin_, "write", errno);
}

void PartFile::append(std::span<const std::byte> bytes) {
  if (!hash_) hash_what_is_there();
  hash_->add(bytes);
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      hash_.reset();  // it includes bytes that are not on the disk
      fail_on(part_, "write", error);
    }
    bytes = bytes.subspan(static_cast<size_t>(n));
    size_ += static_cast<uint64_t>(n);
  }
}

// The record is deleted first: bytes without a record are never continued.
void PartFile::clear() {
  ::unlink(origin_.c_str());
  if (::ftruncate(fd_, 0) != 0) fail_on(part_, "empty", errno);
  size_ = inherited_ = 0;
  hash_.emplace();
}

std::string PartFile::head(size_t count) const {
  std::string out(count, '\0');
  const ssize_t n = ::pread(fd_, out.data(), out.size(), 0);
  if (n < 0) fail_on(part_, "read", errno);
  out.resize(static_cast<size_t>(n));
  return out;
}

void PartFile::hash_what_is_there() {
  Sha256 hash;
  std::vector<std::byte> buffer(1 << 20);
  for (uint64_t at = 0; at < size_;) {
    const ssize_t n = ::pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_on(part_, "read", n < 0 ? errno : EIO);
    hash.add(std::span(buffer).first(static_cast<size_t>(n)));
    at += static_cast<uint64_t>(n);
  }
  hash_ = std::move(hash);
}

std::string PartFile::sha256() {
  if (!hash_) hash_what_is_there();
  return hash_->hex();
}

void PartFile::install() {
  flush(fd_, part_);
  if (::rename(part_.c_str(), target_.c_str()) != 0) fail_on(target_, "make", errno);
  ::unlink(origin_.c_str());
  ::close(std::exchange(fd_, -1));
  const int folder = open_file(target_.parent_path(), O_RDONLY | O_DIRECTORY);
  ::fsync(folder);  // some file systems refuse fsync on folders; the rename has succeeded anyway
  ::close(folder);
}

uint64_t free_bytes(const fs::path& path) {
  std::error_code error;
  for (fs::path at = fs::absolute(path); !at.empty(); at = at.parent_path()) {
    const fs::space_info space = fs::space(at, error);
    if (!error) return space.available;
    if (at == at.root_path()) break;
  }
  throw failure("cannot tell how much room {} has: {}", path.string(), error.message());
}

}  // namespace kvick::cli
