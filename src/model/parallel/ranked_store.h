#pragma once
// Rank 0's store, which represents the stores of all ranks. Each rank's store keeps its own heads
// or layers and receives every call, so all of them hold the same logical sequences, blocks and
// cached prompts (vLLM, section 4.6). A call that can fail succeeds on all ranks or on none.

#include <set>

#include "kv/contract/kv.h"
#include "model/core/step_message.h"
#include "model/ranks/ranks.h"

namespace kvick::model {

// What a rank's store supports of kv::RowMover and kv::Checkpoints.
struct RankRows {
  std::vector<kv::Shape> groups;  // groups whose rows it can move; empty: it moves none
  bool checkpoints = false;
  bool only_at_end = false;  // kv::Checkpoints::only_at_end
  uint64_t state_bytes = 0;
};

// Moved rows are those of all ranks, in rank order. For a pipeline over equal layers, that is the
// layout of a single process. usage() is rank 0's.
class RankedStore final : public kv::Store,
                          kv::RowMover,
                          kv::Holdings,
                          kv::Health,
                          kv::Checkpoints {
 public:
  // The other ranks must have been told to make their stores, with this number, and have answered
  // with `others`. The ranks must outlive this store.
  RankedStore(Ranks& ranks, uint32_t number, std::unique_ptr<kv::Store> own,
              std::span<const RankRows> others);
  ~RankedStore() override;

  kv::Opened open(std::span<const Token> prompt, const kv::Owner& owner) override;
  base::Result<kv::SeqId, kv::Shortage> fork(kv::SeqId seq) override;
  void close(kv::SeqId seq) override;
  base::Result<std::unique_ptr<kv::Step>, kv::Shortage> begin(const kv::Batch& batch) override;
  uint32_t length(kv::SeqId seq) const override { return own_->length(seq); }
  kv::Usage usage() const override { return own_->usage(); }
  kv::StoreFacets facets() override;

 private:
  friend class RankedStep;
  MessageWriter order(Order what) const;
  void close_everywhere(kv::SeqId seq);

  // -- in ranked_rows.cc --
  void read_rows(kv::SeqId seq, uint32_t first, uint32_t count,
                 std::span<std::byte> out) const override;
  void put_rows(kv::RowSink& own, std::span<const std::byte> rows);
  uint32_t first_row(kv::SeqId seq) const override;
  void hold_rows(kv::SeqId seq, uint32_t from) override;
  std::span<const kv::Shape> groups() const override { return groups_; }
  void keep(kv::SeqId seq, uint32_t at) override;
  bool only_at_end() const override { return only_at_end_; }
  uint64_t state_bytes() const override;
  void read_state(kv::SeqId seq, std::span<std::byte> out) const override;
  void put_state(kv::SeqId seq, std::span<const std::byte> state) override;
  void collect(std::span<const uint64_t> bytes, uint64_t times, std::span<std::byte> out) const;
  void deal(const MessageWriter& order, std::span<const std::span<const std::byte>> parts,
            base::FunctionRef<void(std::span<const std::byte>)> own);

  uint64_t shrink(uint64_t bytes) override;
  std::vector<kv::MapEntry> map() const override;
  double idle_seconds() const override;
  std::string failure(kv::SeqId seq) const override;
  bool ran_out_of_memory(kv::SeqId seq) const override;

  Ranks& ranks_;
  const uint32_t number_;
  std::unique_ptr<kv::Store> own_;
  std::vector<kv::Shape> groups_;      // groups of all ranks; empty: rows are not moved
  std::vector<uint64_t> token_bytes_;  // per rank
  bool windows_ = false;               // some rank frees rows that have left a window
  std::vector<uint64_t> state_bytes_;  // per rank
  bool checkpoints_ = false;           // some rank keeps checkpoints
  bool only_at_end_ = false;           // true on some rank
  std::set<kv::SeqId> lost_;           // sequences lost on another rank
};

RankRows rank_rows_of(kv::Store& store);
// Write and read a RankRows in a message.
void add_rank_rows(MessageWriter& message, kv::Store& store);
RankRows take_rank_rows(MessageReader& message);

// Write and read a Shortage in a message. null, nullopt: there is none.
void add_shortage(MessageWriter& message, const kv::Shortage* shortage);
std::optional<kv::Shortage> take_shortage(MessageReader& message);

}  // namespace kvick::model
