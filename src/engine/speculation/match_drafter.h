#pragma once
// Draft tokens from texts: what came the last times when a text ended like this one.

#include <memory>

#include "engine/speculation/draft.h"
#include "engine/speculation/match_index.h"

namespace kvick::engine {

// Looks in the text itself, prompt and answer (prompt lookup; Saxena 2023).
class LookupDrafter final : public Drafter {
 public:
  void draft(const DraftAsk& ask, DraftTree& tree) override;

 private:
  MatchIndex index_{uint32_t{1} << 20};
  size_t known_ = 0;  // tokens of the text that are in the index
};

// Looks in an index that somebody else fills, with the texts of other sequences.
class SuffixDrafter final : public Drafter {
 public:
  explicit SuffixDrafter(std::shared_ptr<const MatchIndex> index) : index_(std::move(index)) {}
  void draft(const DraftAsk& ask, DraftTree& tree) override;

 private:
  std::shared_ptr<const MatchIndex> index_;
};

}  // namespace kvick::engine
