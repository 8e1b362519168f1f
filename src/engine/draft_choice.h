#pragma once
// Which guesses are worth their rows.

#include <span>
#include <vector>

#include "engine/acceptance.h"
#include "engine/draft.h"
#include "engine/step_cost.h"

namespace kvick::engine {

// Of each node, the chance that it becomes a token of the answer: the product of the rates on its
// path. [nodes]
std::vector<double> chances_of(const DraftTree& tree, const Acceptance& acceptance);

// A step of several sequences: tokens that it gives in any case, and rows that it has.
struct PlainStep {
  uint32_t tokens = 0, rows = 0;
};
// The least chance that a guess must have to be verified, so that the step gives the most tokens a
// second; more than 1 if none is worth it. chances: of all guesses of all sequences. Since a chance
// only falls along a path, what is left of a tree is one, and it is the best of its size: what the
// dynamic programme of Sequoia (section 3.1.1) finds for equal rates at every depth.
double least_chance(std::span<const double> chances, const PlainStep& plain, const StepCost& cost);

// The shape that is expected to give the most tokens of all with so many nodes, where the r-th
// child comes true with rates[r]: Sequoia's, without tokens; a node's kind is first + r.
DraftTree best_shape(std::span<const double> rates, uint32_t nodes, uint32_t depth, Kind first);

}  // namespace kvick::engine
