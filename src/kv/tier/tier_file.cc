#include "kv/tier/tier_file.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "kv/tier/tier_queue.h"
#include "kv/tier/tier_ring.h"

namespace kvick::kv {
namespace {

// They wait for a disk, not for a processor.
constexpr unsigned kThreads = 8;

TierQueue::Outcome move(int file, const FileCalls& calls, Transfer transfer) {
  TierQueue::Outcome outcome;
  for (;;) {
    const auto at = static_cast<off_t>(transfer.at);
    const ssize_t moved = transfer.way == Way::kRead
                              ? calls.read(file, transfer.data.data(), transfer.data.size(), at)
                              : calls.write(file, transfer.data.data(), transfer.data.size(), at);
    if (settle(transfer, moved < 0 ? -errno : moved, outcome.error)) return outcome;
  }
}

class FileTier final : public Tier {
 public:
  FileTier(const TierOptions& options, OpenFile file, const FileCalls& calls, bool direct)
      : file_(std::move(file)),
        calls_(calls),
        dir_(options.dir),
        most_bytes_(options.most_bytes),
        direct_(direct) {}

  void use(std::unique_ptr<TierRing> ring) { ring_ = std::move(ring); }
  void use_threads() {
    queue_ = std::make_unique<TierQueue>(
        kThreads, [this](const Transfer& transfer) { return move(file_.get(), calls_, transfer); });
  }

  base::Status<> reserve(uint64_t at, uint64_t bytes) override {
    if (allocate(0, at, bytes) == 0) return base::Done{};
    // A file system that cannot reserve room reports a full disk when it is written.
    if (errno == EOPNOTSUPP || errno == ENOSYS) return base::Done{};
    return base::fail("the file tier in {} has no room for {} more bytes: {}", dir_, bytes,
                      std::strerror(errno));
  }
  // Room that the file system cannot take back is reused later.
  void release(uint64_t at, uint64_t bytes) override {
    allocate(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, bytes);
  }
  void start(std::span<const Transfer> transfers) override {
    if (ring_)
      ring_->start(transfers);
    else
      queue_->start(transfers);
  }
  void finish(double seconds, std::vector<Moved>& ended) override {
    if (ring_)
      ring_->finish(seconds, ended);
    else
      queue_->finish(seconds, ended);
  }
  uint64_t most_bytes() const override { return most_bytes_; }
  std::string description() const override {
    return fmt::format("a file in {} by {}, {}", dir_, ring_ ? "io_uring" : "pread and pwrite",
                       direct_ ? "direct" : "through the page cache");
  }

 private:
  // Retries after a signal, such as the one that tells a server to finish its requests and end.
  int allocate(int mode, uint64_t at, uint64_t bytes) const {
    int result = 0;
    do {
      result =
          calls_.allocate(file_.get(), mode, static_cast<off_t>(at), static_cast<off_t>(bytes));
    } while (result != 0 && errno == EINTR);
    return result;
  }

  OpenFile file_;  // first: the others use it
  FileCalls calls_;
  std::string dir_;
  uint64_t most_bytes_;
  bool direct_;
  std::unique_ptr<TierRing> ring_;
  std::unique_ptr<TierQueue> queue_;
};

base::Result<OpenFile> open_in(const std::string& dir) {
  constexpr mode_t kMine = 0600;
  OpenFile file(open(dir.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kMine));
  if (file.get() >= 0) return file;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
    return base::fail("file: no file can be made in {}: {}", dir, std::strerror(errno));
  // This file system has no unnamed files.
  std::string path = dir + "/kvick-tier-XXXXXX";
  file = OpenFile(mkostemp(path.data(), O_CLOEXEC));
  if (file.get() < 0)
    return base::fail("file: no file can be made in {}: {}", dir, std::strerror(errno));
  unlink(path.c_str());
  return file;
}

// Sets direct I/O and tests with one unit whether it works.
base::Status<> set_direct(int file, size_t unit_bytes) {
  const int flags = fcntl(file, F_GETFL);
  if (fcntl(file, F_SETFL, flags | O_DIRECT) != 0)
    return base::fail("the file system refuses direct I/O: {}", std::strerror(errno));
  base::Buffer unit((unit_bytes + kTierPage) * 2);
  const size_t part = std::min<size_t>(size_t{1} << std::countr_zero(unit_bytes), kTierPage);
  std::memset(unit.data(), 0, unit.size());
  // Aligned exactly as frames are, not better.
  const auto from = reinterpret_cast<uintptr_t>(unit.data());
  std::byte* const data = unit.data() + ((from + kTierPage - 1) / kTierPage * kTierPage - from);
  std::byte* const at = part == kTierPage ? data : data + part;
  const bool works = pwrite(file, at, unit_bytes, static_cast<off_t>(unit_bytes)) ==
                         static_cast<ssize_t>(unit_bytes) &&
                     pread(file, at, unit_bytes, static_cast<off_t>(unit_bytes)) ==
                         static_cast<ssize_t>(unit_bytes);
  const int error = errno;
  if (!works) fcntl(file, F_SETFL, flags);
  const bool emptied = ftruncate(file, 0) == 0;
  if (!works)
    return base::fail("units of {} bytes cannot be moved past the page cache here: {}", unit_bytes,
                      std::strerror(error));
  return emptied ? base::Status<>(base::Done{}) : base::fail("{}", std::strerror(errno));
}

}  // namespace

const FileCalls& system_file_calls() {
  static const FileCalls calls = {.read = pread, .write = pwrite, .allocate = fallocate};
  return calls;
}

OpenFile::~OpenFile() {
  if (file_ >= 0) close(file_);
}

bool settle(Transfer& transfer, ssize_t result, std::string& error) {
  const std::string_view what = transfer.way == Way::kRead ? "reading" : "writing";
  if (result == -EINTR || result == -EAGAIN) return false;
  if (result < 0) {
    error = fmt::format("{} {} bytes of the file tier failed: {}", what, transfer.data.size(),
                        std::strerror(static_cast<int>(-result)));
    return true;
  }
  if (result == 0) {
    error = fmt::format("{} the file tier: {} bytes are missing at {}", what, transfer.data.size(),
                        transfer.at);
    return true;
  }
  const auto moved = std::min(static_cast<size_t>(result), transfer.data.size());
  transfer.at += moved;
  transfer.data = transfer.data.subspan(moved);
  return transfer.data.empty();
}

base::Result<std::unique_ptr<Tier>> make_file_tier(const TierOptions& options, size_t unit_bytes,
                                                   const FileCalls* calls) {
  using Io = TierOptions::Io;
  using Direct = TierOptions::Direct;
  KVICK_TRY(OpenFile file, open_in(options.dir));
  bool direct = false;
  if (options.direct != Direct::kOff) {
    const base::Status<> works = set_direct(file.get(), unit_bytes);
    if (!works.ok() && options.direct == Direct::kOn)
      return base::fail("file: direct=on: {}", works.error().message);
    direct = works.ok();
  }
  const int number = file.get();
  auto tier = std::make_unique<FileTier>(options, std::move(file),
                                         calls != nullptr ? *calls : system_file_calls(), direct);
  if (options.io != Io::kThreads && calls == nullptr) {
    auto ring = TierRing::make(number);
    if (!ring.ok() && options.io == Io::kRing)
      return base::fail("file: io=uring: {}", ring.error().message);
    if (ring.ok()) {
      tier->use(std::move(ring).value());
      return std::unique_ptr<Tier>(std::move(tier));
    }
  }
  tier->use_threads();
  return std::unique_ptr<Tier>(std::move(tier));
}

}  // namespace kvick::kv
