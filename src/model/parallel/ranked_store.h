#pragma once
// A store of rank 0: each rank has one for its own heads, which hears of every call and so holds
// the same logical sequences, blocks and cached prompts (vLLM, section 4.6). Whatever a store may
// refuse, all of them do or none.

#include <set>

#include "kv/contract/kv.h"
#include "model/core/step_message.h"
#include "model/ranks/ranks.h"

namespace kvick::model {

// Rows are moved on each rank alone, so that it has no kv::RowMover. Its usage is that of rank 0.
class RankedStore final : public kv::Store, kv::Holdings, kv::Health {
 public:
  // The others have been told to make theirs, as `number`. Both outlive it.
  RankedStore(Ranks& ranks, uint32_t number, std::unique_ptr<kv::Store> own);
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

  uint64_t shrink(uint64_t bytes) override;
  std::vector<kv::MapEntry> map() const override;
  std::string failure(kv::SeqId seq) const override;
  bool ran_out_of_memory(kv::SeqId seq) const override;

  Ranks& ranks_;
  const uint32_t number_;
  std::unique_ptr<kv::Store> own_;
  std::set<kv::SeqId> lost_;  // by another rank
};

// The words of a Shortage.
void add_shortage(MessageWriter& message, const kv::Shortage* shortage);
std::optional<kv::Shortage> take_shortage(MessageReader& message);

}  // namespace kvick::model
