#pragma once
// Chooses the draft tokens that are worth their rows.

#include <span>
#include <vector>

#include "engine/core/step_cost.h"
#include "engine/speculation/acceptance.h"
#include "engine/speculation/draft.h"

namespace kvick::engine {

// Returns for each node the chance that it becomes a token of the answer: the product of the rates
// on its path. [nodes]
std::vector<double> chances_of(const DraftTree& tree, const Acceptance& acceptance);

// A step of several sequences without draft tokens: the tokens that it gives, and its shape.
struct PlainStep {
  uint32_t tokens = 0;
  StepShape shape;
  double attended_by_draft = 0;  // what a draft token adds to shape.attended, on average
  StepShape with(uint32_t drafts) const;
};
// Returns a plain step of `sequences` sequences with `past` rows each on average.
PlainStep plain_step(uint32_t sequences, double past);
// Draft tokens must promise a step this many times the tokens per second of a plain one: a smaller
// gain would drown in measurement error.
inline constexpr double kLeastGain = 1.04;

// Returns the least chance that a draft token needs to be verified, so that the step gives the most
// tokens per second; more than 1 if none is worth it. chances: of all draft tokens of all
// sequences. Since chances only fall along a path, the kept nodes of a tree are a tree, and the
// best of its size: the one that Sequoia's dynamic programme (section 3.1.1) finds for equal rates
// at every depth. stake: the most that draft tokens may lose if none is accepted, in tokens of
// plain steps.
double least_chance(std::span<const double> chances, const PlainStep& plain, const StepCost& cost,
                    double stake);
// Returns whether this stake allows even one draft token; otherwise none need be made.
bool may_draft(const PlainStep& plain, const StepCost& cost, double stake);

struct TreeSize {
  uint32_t nodes = 0, depth = 0;
};
// Costs of draft tokens that are computed level by level.
struct DraftPrices {
  const PlainStep& plain;
  const StepCost& step;
  const LevelCost& level;
};
// Returns the size of the tree that is worth computing for one of the step's sequences: the size
// that gives the most tokens per second of its share of the step. No nodes if the draft tokens that
// there are already (with these chances), or none at all, give almost as much. The r-th child is
// accepted with probability rates[r]. Returns `most` before the prices are known.
TreeSize worth(std::span<const double> rates, const TreeSize& most, const DraftPrices& prices,
               std::span<const double> chances);

// Returns Sequoia's tree: the shape of `nodes` nodes with the most expected tokens if the r-th
// child is accepted with probability rates[r]. It has no tokens; a node's kind is first + r.
DraftTree best_shape(std::span<const double> rates, uint32_t nodes, uint32_t depth, Kind first);

}  // namespace kvick::engine
