#pragma once
// Draft tokens from texts: the tokens that followed earlier occurrences of the text's end.

#include <algorithm>
#include <memory>

#include "engine/speculation/draft.h"
#include "engine/speculation/match_index.h"

namespace kvick::engine {

// An index of a prompt's beginning, shared by all answers to it. The first one that drafts fills
// it.
struct PromptMatches {
  explicit PromptMatches(size_t prompt_tokens)
      : tokens(prompt_tokens - std::min(prompt_tokens, kOwn)) {}
  // The prompt's last tokens are in each answer's own index, since different tokens follow them.
  static constexpr size_t kOwn = MatchIndex::kMostNext;

  size_t tokens;     // tokens of the beginning
  size_t known = 0;  // how many of them are in the index
  MatchIndex index{uint32_t{1} << 20};
};

// Looks in the text itself, prompt and answer (prompt lookup; Saxena 2023).
class LookupDrafter final : public Drafter {
 public:
  // prompt: shared with the other answers to the prompt; null: there is one answer.
  explicit LookupDrafter(std::shared_ptr<PromptMatches> prompt = nullptr)
      : prompt_(std::move(prompt)), known_(prompt_ != nullptr ? prompt_->tokens : 0) {}
  void draft(const DraftAsk& ask, DraftTree& tree) override;

 private:
  std::shared_ptr<PromptMatches> prompt_;
  MatchIndex index_{uint32_t{1} << 20};
  size_t known_;  // tokens of the text that are in one of the two indices
};

// Looks in an index of other sequences' texts, which Speculation fills.
class SuffixDrafter final : public Drafter {
 public:
  explicit SuffixDrafter(std::shared_ptr<const MatchIndex> index) : index_(std::move(index)) {}
  void draft(const DraftAsk& ask, DraftTree& tree) override;

 private:
  std::shared_ptr<const MatchIndex> index_;
};

}  // namespace kvick::engine
