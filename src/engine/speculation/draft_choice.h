#pragma once
// Which draft tokens are worth their rows.

#include <span>
#include <vector>

#include "engine/core/step_cost.h"
#include "engine/speculation/acceptance.h"
#include "engine/speculation/draft.h"

namespace kvick::engine {

// Of each node, the chance that it becomes a token of the answer: the product of the rates on its
// path. [nodes]
std::vector<double> chances_of(const DraftTree& tree, const Acceptance& acceptance);

// A step of several sequences without draft tokens: tokens that it gives, and its rows.
struct PlainStep {
  uint32_t tokens = 0;
  StepShape shape;
  double attended_by_draft = 0;  // what a draft adds, on average
  StepShape with(uint32_t drafts) const;
};
// A plain step of `sequences` sequences with `past` rows each on average.
PlainStep plain_step(uint32_t sequences, double past);
// Draft tokens must promise a step this many times the tokens per second of a plain one: a smaller
// gain would drown in measurement error.
inline constexpr double kLeastGain = 1.04;

// The least chance that a draft must have to be verified, so that the step gives the most tokens a
// second; more than 1 if none is worth it. chances: of all draft tokens of all sequences. Since a
// chance only falls along a path, what is left of a tree is one, and it is the best of its size:
// what the dynamic programme of Sequoia (section 3.1.1) finds for equal rates at every depth.
// stake: the most that draft tokens may lose if none comes true, in tokens of steps without draft
// tokens.
double least_chance(std::span<const double> chances, const PlainStep& plain, const StepCost& cost,
                    double stake);
// Whether a draft may be verified at all with that stake: where not, none need be made.
bool may_draft(const PlainStep& plain, const StepCost& cost, double stake);

struct TreeSize {
  uint32_t nodes = 0, depth = 0;
};
// What draft tokens cost that are computed level by level.
struct DraftPrices {
  const PlainStep& plain;
  const StepCost& step;
  const LevelCost& level;
};
// How large a tree is worth computing for one of the step's sequences: the size that gives it the
// most tokens a second of its share of the step, if that is more than without draft tokens and more
// than by those that there are already, of the given chances; else no nodes. The r-th child comes
// true with rates[r]. Before anything is known of the prices: `most`.
TreeSize worth(std::span<const double> rates, const TreeSize& most, const DraftPrices& prices,
               std::span<const double> chances);

// The tree shape of `nodes` nodes with the most expected tokens if the r-th child is accepted with
// probability rates[r]: Sequoia's. It has no tokens; a node's kind is first + r.
DraftTree best_shape(std::span<const double> rates, uint32_t nodes, uint32_t depth, Kind first);

}  // namespace kvick::engine
