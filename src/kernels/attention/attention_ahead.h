#pragma once
// Prefetches rows at an even pace before they are read. Included inside a target region.

namespace kvick::kernels {
namespace {

// Prefetches `lines` cache lines, `step` bytes apart, into the second-level cache. Returns the
// address after the last. Forced inline: GCC takes a function that only prefetches to have no
// effect, and drops the call.
[[gnu::always_inline]] inline const std::byte* ask_for_lines(const std::byte* at, size_t step,
                                                             uint32_t lines) {
  for (; lines > 0; --lines, at += step) __builtin_prefetch(at, 0, 2);
  return at;
}

// A core waits for at most 16 lines from memory and 48 more behind its second-level cache. A burst
// of prefetches fills those buffers; then loads that hit the cache wait as well, and memory and
// arithmetic alternate. Even prefetches overlap with the arithmetic.
class LinesAhead {
 public:
  // Starts prefetching the lines, spread evenly over the next `units` of work.
  void start(const StripList& lines, uint32_t units) {
    strip_ = lines.strips;
    strips_ = lines.count;
    credit_ = 0;
    rate_ = units == 0 || strips_ == 0 ? 0 : lines.lines * kLine / units;
    if (strips_ > 0) enter();
  }
  // Prefetches the lines that are due with the next `units` of work.
  [[gnu::always_inline]] inline void work(uint32_t units) {
    credit_ += units * rate_;
    uint32_t lines = credit_ / kLine;
    credit_ %= kLine;
    while (lines > 0) {
      const uint32_t now = lines < left_ ? lines : left_;
      at_ = ask_for_lines(at_, step_, now);
      lines -= now;
      left_ -= now;
      if (left_ > 0) return;
      ++strip_;
      if (--strips_ == 0) {
        rate_ = credit_ = 0;
        return;
      }
      enter();
    }
  }

 private:
  static constexpr uint32_t kLine = 1U << 16;  // credit for one line

  void enter() {
    at_ = strip_->at;
    step_ = strip_->step;
    left_ = strip_->lines;
  }

  const Strip* strip_ = nullptr;
  uint32_t strips_ = 0;  // the current strip and those after it
  uint32_t step_ = 0, left_ = 0;
  const std::byte* at_ = nullptr;
  uint32_t credit_ = 0, rate_ = 0;
};

// Prefetches keys and values alternately.
struct RowsAhead {
  LinesAhead k, v;
  void start(const NextRows& next, uint32_t units) {
    k.start(next.k, units);
    v.start(next.v, units);
  }
  [[gnu::always_inline]] inline void work(uint32_t units) {
    k.work(units);
    v.work(units);
  }
};

}  // namespace
}  // namespace kvick::kernels
