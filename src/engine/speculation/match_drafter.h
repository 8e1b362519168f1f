#pragma once
// Draft tokens from texts: what came the last times when a text ended like this one.

#include <algorithm>
#include <memory>

#include "engine/speculation/draft.h"
#include "engine/speculation/match_index.h"

namespace kvick::engine {

// The beginning of a prompt, for all answers to it: the first that drafts fills the index.
struct PromptMatches {
  explicit PromptMatches(size_t prompt_tokens)
      : tokens(prompt_tokens - std::min(prompt_tokens, kOwn)) {}
  // The prompt's last tokens are in each answer's own index: what comes behind them differs.
  static constexpr size_t kOwn = MatchIndex::kMostNext;

  size_t tokens;     // of the beginning
  size_t known = 0;  // of these, that are in the index
  MatchIndex index{uint32_t{1} << 20};
};

// Looks in the text itself, prompt and answer (prompt lookup; Saxena 2023).
class LookupDrafter final : public Drafter {
 public:
  // prompt: shared with other answers to it; null: there is one answer.
  explicit LookupDrafter(std::shared_ptr<PromptMatches> prompt = nullptr)
      : prompt_(std::move(prompt)), known_(prompt_ != nullptr ? prompt_->tokens : 0) {}
  void draft(const DraftAsk& ask, DraftTree& tree) override;

 private:
  std::shared_ptr<PromptMatches> prompt_;
  MatchIndex index_{uint32_t{1} << 20};
  size_t known_;  // tokens of the text that are in one of both indices
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
