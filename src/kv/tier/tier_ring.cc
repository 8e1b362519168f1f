#include "kv/tier/tier_ring.h"

#include <cmath>
#include <cstring>

#include "base/clock.h"
#include "kv/tier/tier_file.h"

namespace kvick::kv {

base::Result<std::unique_ptr<TierRing>> TierRing::make(int file) {
  std::unique_ptr<TierRing> ring(new TierRing(file));
  const int made = io_uring_queue_init(kDepth, &ring->ring_, 0);
  if (made < 0) return base::fail("io_uring is refused: {}", std::strerror(-made));
  ring->made_ = true;
  if ((ring->ring_.features & IORING_FEAT_EXT_ARG) == 0)
    return base::fail("io_uring of this kernel cannot wait with a time limit: it needs Linux 5.11");
  for (uint32_t slot = kDepth; slot-- > 0;) ring->free_.push_back(slot);
  return ring;
}

TierRing::~TierRing() {
  std::vector<Moved> ended;
  while (made_ && (free_.size() < kDepth || !waiting_.empty())) {
    ended.clear();
    try {
      finish(1, ended);
    } catch (const std::bad_alloc&) {  // retry: the system still uses the caller's memory
    }
  }
  if (made_) io_uring_queue_exit(&ring_);
}

void TierRing::start(std::span<const Transfer> transfers) {
  const std::lock_guard lock(mutex_);
  waiting_.insert(waiting_.end(), transfers.begin(), transfers.end());
  submit();
}

// Submits as many transfers as there are free slots; the ring has as many entries as slots.
void TierRing::submit() {
  bool some = false;
  while (!waiting_.empty() && !free_.empty()) {
    io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
    if (entry == nullptr) break;
    const uint32_t slot = free_.back();
    free_.pop_back();
    const Transfer& transfer = slots_[slot] = waiting_.front();
    waiting_.pop_front();
    const auto bytes = static_cast<unsigned>(transfer.data.size());
    if (transfer.way == Way::kRead)
      io_uring_prep_read(entry, file_, transfer.data.data(), bytes, transfer.at);
    else
      io_uring_prep_write(entry, file_, transfer.data.data(), bytes, transfer.at);
    io_uring_sqe_set_data64(entry, slot);
    some = true;
  }
  // Entries that the system does not accept now (EAGAIN, EBUSY) stay in the ring for the next call.
  if (some) io_uring_submit(&ring_);
}

bool TierRing::reap(std::vector<Moved>& ended) {
  const std::lock_guard lock(mutex_);
  const size_t before = ended.size();
  ended.reserve(before + slots_.size() - free_.size());  // first: nothing is lost if it throws
  io_uring_cqe* entry = nullptr;
  while (io_uring_peek_cqe(&ring_, &entry) == 0 && entry != nullptr) {
    const auto slot = static_cast<uint32_t>(io_uring_cqe_get_data64(entry));
    const int result = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    Transfer& transfer = slots_[slot];
    free_.push_back(slot);
    std::string error;
    bool over = true;
    try {
      over = settle(transfer, result, error);
      if (!over) waiting_.push_front(transfer);
    } catch (const std::bad_alloc&) {
      over = true;
      error = "no memory";
    }
    if (over) ended.push_back({transfer.tag, std::move(error)});
  }
  submit();
  if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
  return ended.size() > before;
}

void TierRing::finish(double seconds, std::vector<Moved>& ended) {
  const double until = base::steady_seconds() + seconds;
  while (!reap(ended)) {
    {
      const std::lock_guard lock(mutex_);
      if (free_.size() == kDepth && waiting_.empty()) return;
    }
    const double left = until - base::steady_seconds();
    if (left <= 0) return;
    __kernel_timespec time{};
    time.tv_sec = static_cast<long long>(left);
    time.tv_nsec = static_cast<long long>((left - std::floor(left)) * 1e9);
    io_uring_cqe* entry = nullptr;
    io_uring_wait_cqe_timeout(&ring_, &entry, &time);  // reap() ignores its result
  }
}

}  // namespace kvick::kv
