#pragma once
// Rows asked for before they are read, at an even pace. Included inside a target region.

namespace kvick::kernels {
namespace {

// A row's lines, in the order in which a prefetcher expects them: to the first-level cache (3) or
// to the second (2). By the ends of its pieces: of rows of 68 bytes behind one another each has a
// line to ask for. Inlined by force: GCC takes a function that only prefetches for one without an
// effect, and drops the call.
template <int Level>
[[gnu::always_inline]] inline void ask_for_row(const std::byte* row, uint32_t bytes) {
  constexpr uint32_t kLine = 64;
  uint32_t end = bytes % kLine == 0 ? kLine : bytes % kLine + (bytes > kLine ? kLine : 0);
  for (; end <= bytes; end += kLine) __builtin_prefetch(row + end - 1, 0, Level);
}

// A core waits for at most 16 lines of memory and 48 more behind its second-level cache. Asked for
// in bursts, lines fill those places and then loads that hit wait as well: memory and arithmetic
// take turns. Asked for evenly, keys and values in turn, they overlap.
class RowsAhead {
 public:
  // From here on the rows are to be asked for while `units` of work are done.
  void start(const NextRows& next, uint32_t units) {
    piece_ = next.pieces;
    left_ = next.count;
    row_ = 0;
    credit_ = 0;
    k_bytes_ = next.k_bytes;
    v_bytes_ = next.v_bytes;
    rate_ = units == 0 || left_ == 0 ? 0 : next.rows * kRow / units;
  }
  // Some of the work is done next.
  [[gnu::always_inline]] inline void work(uint32_t units) {
    credit_ += units * rate_;
    for (; credit_ >= kRow; credit_ -= kRow) {
      ask_for_row<2>(piece_->k + static_cast<size_t>(row_) * piece_->k_stride, k_bytes_);
      ask_for_row<2>(piece_->v + static_cast<size_t>(row_) * piece_->v_stride, v_bytes_);
      if (++row_ < piece_->rows) continue;
      row_ = 0;
      ++piece_;
      if (--left_ > 0) continue;
      rate_ = credit_ = 0;
      return;
    }
  }

 private:
  static constexpr uint32_t kRow = 1U << 16;  // of credit

  const NextRows::Piece* piece_ = nullptr;
  uint32_t left_ = 0, row_ = 0;  // pieces; the row of the first of them
  uint32_t k_bytes_ = 0, v_bytes_ = 0;
  uint32_t credit_ = 0, rate_ = 0;
};

}  // namespace
}  // namespace kvick::kernels
