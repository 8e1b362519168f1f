#include "engine/speculation/match_drafter.h"

#include <algorithm>
#include <functional>

namespace kvick::engine {
namespace {

constexpr size_t kBranches = 3;

using Matches = std::vector<MatchIndex::Match>;

// Whether the matches that equal the longest one up to `depth` also have its next token.
Agreement agreement_at(const Matches& matches, size_t depth) {
  const auto longest = matches[0].next;
  Agreement agreement = Agreement::kLone;
  for (const MatchIndex::Match& match : std::span(matches).subspan(1)) {
    if (match.next.size() <= depth ||
        !std::ranges::equal(match.next.first(depth), longest.first(depth)))
      continue;
    if (match.next[depth] != longest[depth]) return Agreement::kSplit;
    agreement = Agreement::kAll;
  }
  return agreement;
}

// Adds the tokens after the longest match, then those after other matches, as branches.
void add_matches(const Matches& matches, const DraftAsk& ask, Kind first, DraftTree& tree) {
  for (size_t m = 0; m < matches.size() && m < kBranches; ++m) {
    const MatchIndex::Match& match = matches[m];
    int32_t parent = -1;
    bool branch = false;
    for (uint32_t i = 0; i < match.next.size() && i < ask.depth; ++i) {
      if (const int32_t known = tree.child(parent, match.next[i]); known >= 0) {
        parent = known;
        continue;
      }
      // Nodes of other matches than the longest are branches: agreement_at() reads the tokens after
      // the longest match, which may be fewer.
      branch = branch || m > 0;
      if (tree.nodes.size() >= ask.most) return;
      // Each accepted draft token makes the match one token longer.
      const uint32_t length = match.length + i;
      const Kind kind = branch ? branch_kind(length) : match_kind(length, agreement_at(matches, i));
      parent = tree.add(parent, match.next[i], static_cast<Kind>(first + kind));
    }
  }
}

// Adds the matches in the prompt to those in the answer's own text, which are newer, and restores
// the order of MatchIndex::find.
void find_in_prompt(PromptMatches& prompt, std::span<const Token> text, Matches& matches) {
  for (; prompt.known < prompt.tokens; ++prompt.known) prompt.index.add(text[prompt.known]);
  Matches more;
  prompt.index.find(text, more);
  matches.insert(matches.end(), more.begin(), more.end());
  std::ranges::stable_sort(matches, std::ranges::greater(), &MatchIndex::Match::length);
  if (!matches.empty() && matches[0].length > 1)
    std::erase_if(matches, [](const MatchIndex::Match& match) { return match.length == 1; });
}

}  // namespace

void LookupDrafter::draft(const DraftAsk& ask, DraftTree& tree) {
  // The last token is added once another one follows it: otherwise the text's end would match
  // itself.
  for (; known_ + 1 < ask.text.size(); ++known_) index_.add(ask.text[known_]);
  Matches matches;
  index_.find(ask.text, matches);
  if (prompt_ != nullptr) find_in_prompt(*prompt_, ask.text, matches);
  add_matches(matches, ask, kLookupKinds, tree);
}

void SuffixDrafter::draft(const DraftAsk& ask, DraftTree& tree) {
  Matches matches;
  index_->find(ask.text, matches);
  add_matches(matches, ask, kSuffixKinds, tree);
}

}  // namespace kvick::engine
