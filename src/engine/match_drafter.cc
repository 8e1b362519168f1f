#include "engine/match_drafter.h"

#include <algorithm>
#include <bit>

namespace kvick::engine {
namespace {

constexpr size_t kBranches = 3;

// A guess that comes true makes the match longer by one. 2, 3, 4, 5, 6-7, 8-11, 12-15, 16 and more.
Kind kind_of(uint32_t length) {
  if (length < 6) return static_cast<Kind>(length - 2);
  return length < 8 ? 4 : length < 12 ? 5 : length < 16 ? 6 : 7;
}
constexpr Kind kSecondChoice = 8;  // kinds of branches that are not the best match's

// The best match's continuation, then what others have instead: a branch is worth less than the
// trunk at the same depth, so it is only as long as what is left.
void add_matches(const std::vector<MatchIndex::Match>& matches, const DraftAsk& ask, Kind first,
                 DraftTree& tree) {
  for (size_t m = 0; m < matches.size(); ++m) {
    const MatchIndex::Match& match = matches[m];
    int32_t parent = -1;
    Kind choice = 0;
    for (uint32_t i = 0; i < match.next.size() && i < ask.depth; ++i) {
      const int32_t known = tree.child(parent, match.next[i]);
      if (known < 0 && m > 0) choice = kSecondChoice;
      if (known < 0 && tree.nodes.size() >= ask.most) return;
      const auto kind = static_cast<Kind>(first + choice + kind_of(match.length + i));
      parent = tree.add(parent, match.next[i], kind);
    }
  }
}

}  // namespace

void LookupDrafter::draft(const DraftAsk& ask, DraftTree& tree) {
  // The last token first meets the index when something is behind it: a text does not match itself.
  for (; known_ + 1 < ask.text.size(); ++known_) index_.add(ask.text[known_]);
  std::vector<MatchIndex::Match> matches;
  index_.find(ask.text, kBranches, matches);
  add_matches(matches, ask, kLookupKinds, tree);
}

void SuffixDrafter::draft(const DraftAsk& ask, DraftTree& tree) {
  std::vector<MatchIndex::Match> matches;
  index_->find(ask.text, kBranches, matches);
  add_matches(matches, ask, kSuffixKinds, tree);
}

}  // namespace kvick::engine
