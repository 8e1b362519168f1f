#pragma once
// Internal to `virtual`: contiguous rows in memory that the page table grows and shares. See
// docs/adr/0012-forks-by-the-page-table.md.
//
// An opened sequence writes its rows into a range of the store's file. A fork maps that range
// again, privately, and reads the rows written so far. What it adds behind them goes into pages
// that the kernel copies for it first. Rows are never written twice, so the opened sequence
// continues in place, and no sequence sees what another one adds.
//
// With a window (Shape::window) whole pages before the first visible row are given back; pages of
// the file once no sequence that shares them sees a row in them.

#include "kv/rows/row_file.h"
#include "kv/stores/contiguous.h"

namespace kvick::kv {

struct VirtualOptions {
  Pages pages = Pages::kSystem;
  uint64_t most_mappings = kv::most_mappings();  // limit of the process
  // Whether pages of 4 KiB come from a file, which forks can map. With vm.overcommit_memory=2 the
  // system reserves memory when it is mapped, but none for a file: it would kill the process when
  // memory runs out.
  bool in_file = !promises_memory();
};

struct VirtualSequence;

// Rows of one opened sequence in the file, and the forks that share them.
struct SharedRows {
  RowFile::Range range;
  const VirtualSequence* writer = nullptr;  // null once it is closed
  std::vector<const VirtualSequence*> forks;
  // In the layer being written: rows for which forks get new pages.
  uint32_t new_begin = UINT32_MAX, new_end = 0;
};

struct RowMemory {
  std::shared_ptr<SharedRows> rows;  // null outside of the file
  Reservation own;                   // a fork's private pages, or all pages outside of the file
  std::byte* data() const {
    return own.data() != nullptr ? own.data() : rows != nullptr ? rows->range.data() : nullptr;
  }
};

struct VirtualSequence : ContiguousSequence {
  RowMemory memory;
  uint32_t shared = 0;                 // of a fork: rows [0, shared) belong to the file's range
  std::vector<uint32_t> touched_rows;  // per layer: most rows in use since the end of the last step
  uint32_t settled_rows = 0;           // rows in use at the end of the last committed step
  uint32_t step_rows = 0;              // fresh rows of the last step
  bool is_fork() const { return memory.rows != nullptr && memory.own.data() != nullptr; }
};

class VirtualStore final : public ContiguousStore {
 public:
  VirtualStore(const Setup& setup, const VirtualOptions& options);
  std::vector<MapEntry> map() const override;

 private:
  static VirtualSequence& mine(Sequence& sequence) {
    return static_cast<VirtualSequence&>(sequence);
  }

  std::unique_ptr<Sequence> make_sequence(std::span<const Token>, const Owner&) override;
  SequenceOr copy_sequence(SeqId id, const Sequence& from) override;
  base::Status<Shortage> make_room(std::span<const StepSlot> step_slots) override;
  SequenceOr make_room_for_fork(SeqId id, const ContiguousSequence& from) override;
  kernels::Bucket bucket_of(const ContiguousSequence& sequence, uint32_t layer) const override;
  void use(ContiguousSequence& sequence, uint32_t layer, uint32_t rows) override;
  void wrote(ContiguousSequence& sequence, uint32_t layer) override;
  void settle(ContiguousSequence& sequence, bool committed) override;
  void free_sequence(std::unique_ptr<Sequence> sequence) override;
  void give_back(Sequence& sequence) override;
  uint64_t sequence_bytes(const ContiguousSequence& sequence) const override;
  Usage count() const override;

  base::Result<RowMemory, Shortage> reserve(SeqId id) const;
  void attach(VirtualSequence& sequence, RowMemory memory);
  SequenceOr share(SeqId id, const VirtualSequence& from, Reservation mapping);
  SequenceOr fall_back(SeqId id, const Sequence& from);
  void move_to_own_range(SeqId id, VirtualSequence& fork);
  uint64_t mappings() const { return own_mappings_ + (file_ != nullptr ? file_->mappings() : 0); }

  LayerRows layer_rows(std::byte* data, uint32_t layer) const;
  // Part of a region, in whole pages.
  struct Span {
    uint64_t begin = 0, end = 0;
    uint64_t bytes() const { return end - begin; }
  };
  // begin_of: start of the page in which a row begins. end_of: end of the pages of the rows before
  // it.
  uint64_t begin_of(uint32_t row, bool is_v) const;
  uint64_t end_of(uint32_t row, bool is_v) const;
  // Rows that fit into a page, for both keys and values.
  uint32_t page_rows() const;
  // Pages that a sequence has written to once rows before `touched` are in use.
  Span written(const VirtualSequence& sequence, uint32_t touched, bool is_v) const;
  // Bytes of those pages in one layer.
  uint64_t layer_bytes(const VirtualSequence& sequence, uint32_t touched) const;
  uint64_t growth_bytes(const VirtualSequence& sequence, uint32_t rows) const;
  // Pages of the file that a sequence needs.
  Span in_file(const VirtualSequence& sequence, uint32_t layer, bool is_v) const;
  // Calls `use` for the parts of a span of the file that no sequence needs.
  void for_each_gap(const SharedRows& rows, uint32_t layer, bool is_v, Span span,
                    base::FunctionRef<void(Span)> use) const;
  uint64_t gap_bytes(const SharedRows& rows, uint32_t layer, bool is_v, Span span) const;
  // Releases them in the regions of all heads.
  void release_gaps(const SharedRows& rows, uint32_t layer, bool is_v, Span span) const;
  void release(const VirtualSequence& sequence, uint32_t layer, bool is_v, Span span) const;
  uint64_t file_bytes(const SharedRows& rows) const;
  void give_back_own(const VirtualSequence& sequence, uint32_t from, uint32_t layer, bool is_v);
  void give_back_in_file(const VirtualSequence& sequence, uint32_t from, uint32_t layer, bool is_v);
  void count_bytes(const VirtualSequence& sequence, uint64_t before, uint64_t after);

  Pages pages_;
  uint64_t most_mappings_;
  uint64_t k_bytes_, v_bytes_;     // of one region for the whole context
  std::shared_ptr<RowFile> file_;  // null if rows are in anonymous memory
  uint64_t own_mappings_ = 0;      // of forks and anonymous memory
  uint64_t own_bytes_ = 0;         // part of allocated_bytes_ outside the file
  uint64_t fallbacks_ = 0;
};

}  // namespace kvick::kv
