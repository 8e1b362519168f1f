#include "engine/speculation/draft_choice.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace kvick::engine {

StepShape PlainStep::with(uint32_t drafts) const {
  return {.rows = shape.rows + drafts, .attended = shape.attended + drafts * attended_by_draft};
}

PlainStep plain_step(uint32_t sequences, double past) {
  return {.tokens = sequences,
          .shape = {.rows = sequences, .attended = sequences * past},
          .attended_by_draft = past * StepShape::kShare};
}

std::vector<double> chances_of(const DraftTree& tree, const Acceptance& acceptance) {
  std::vector<double> chances;
  for (const DraftTree::Node& node : tree.nodes) {
    const double parent = node.parent < 0 ? 1 : chances[static_cast<size_t>(node.parent)];
    chances.push_back(parent * acceptance.rate(node.kind));
  }
  return chances;
}

namespace {

// Returns the tokens that plain steps would give in the time of `drafts` draft tokens, which is
// lost if none is accepted; 0 before any cost is measured.
double lost_by(uint32_t drafts, const PlainStep& plain, const StepCost& cost) {
  const double without = cost.seconds(plain.shape);
  if (without == 0) return 0;
  return plain.tokens * (cost.seconds(plain.with(drafts)) / without - 1);
}

}  // namespace

double least_chance(std::span<const double> chances, const PlainStep& plain, const StepCost& cost,
                    double stake) {
  std::vector<double> sorted(chances.begin(), chances.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double best = kLeastGain * plain.tokens / cost.seconds(plain.shape), least = 2;
  double tokens = plain.tokens;
  for (size_t i = 0; i < sorted.size(); ++i) {
    tokens += sorted[i];
    const uint32_t drafts = static_cast<uint32_t>(i) + 1;
    if (lost_by(drafts, plain, cost) > stake) break;
    const double rate = tokens / cost.seconds(plain.with(drafts));
    // Draft tokens of equal chance are kept all or not at all.
    if (rate <= best || (i + 1 < sorted.size() && sorted[i + 1] == sorted[i])) continue;
    best = rate;
    least = sorted[i];
  }
  return least;
}

bool may_draft(const PlainStep& plain, const StepCost& cost, double stake) {
  return lost_by(1, plain, cost) <= stake;
}

namespace {

struct Sized {
  double rate = 0;  // tokens a second
  uint32_t nodes = 0;
};
// Returns the best rate of one of the step's sequences, and its number of draft tokens. sorted:
// their chances, descending; seconds: the time to make them, in addition to the step's.
Sized best_rate(std::span<const double> sorted, const DraftPrices& prices, double seconds) {
  const double step = prices.step.seconds(prices.plain.shape);
  const double share = step / prices.plain.tokens;
  Sized best = {.rate = 1 / share, .nodes = 0};
  double tokens = 1;
  for (uint32_t i = 0; i < sorted.size(); ++i) {
    tokens += sorted[i];
    const double drafts = prices.step.seconds(prices.plain.with(i + 1)) - step;
    const double rate = tokens / (share + drafts + seconds);
    if (rate > best.rate) best = {.rate = rate, .nodes = i + 1};
  }
  return best;
}

}  // namespace

TreeSize worth(std::span<const double> rates, const TreeSize& most, const DraftPrices& prices,
               std::span<const double> chances) {
  if (prices.step.seconds(prices.plain.shape) == 0 || prices.level.seconds() == 0) return most;
  std::vector<double> sorted(chances.begin(), chances.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double best = kLeastGain * best_rate(sorted, prices, 0).rate;
  TreeSize size;
  for (uint32_t depth = 1; depth <= most.depth; ++depth) {
    // Its nodes are in order of falling chance.
    const DraftTree shape = best_shape(rates, most.nodes, depth, 0);
    std::vector<double> of_shape;
    for (const DraftTree::Node& node : shape.nodes) {
      const double parent = node.parent < 0 ? 1 : of_shape[static_cast<size_t>(node.parent)];
      of_shape.push_back(parent * rates[node.kind]);
    }
    const Sized sized = best_rate(of_shape, prices, depth * prices.level.seconds());
    if (sized.nodes == 0 || sized.rate <= best) continue;
    best = sized.rate;
    size = {.nodes = sized.nodes, .depth = depth};
  }
  return size;
}

DraftTree best_shape(std::span<const double> rates, uint32_t nodes, uint32_t depth, Kind first) {
  struct Option {
    double chance;
    int32_t parent;
    uint32_t rank;
    bool operator<(const Option& other) const { return chance < other.chance; }
  };
  DraftTree tree;
  std::vector<double> chances;
  std::priority_queue<Option> options;
  options.push({rates[0], -1, 0});
  while (tree.nodes.size() < nodes && !options.empty()) {
    const Option taken = options.top();
    options.pop();
    // The rank stands for the token, which is not known yet.
    const int32_t node = tree.add(taken.parent, static_cast<Token>(taken.rank),
                                  static_cast<Kind>(first + taken.rank));
    const double of_parent = taken.parent < 0 ? 1 : chances[static_cast<size_t>(taken.parent)];
    chances.push_back(taken.chance);
    if (taken.rank + 1 < rates.size())
      options.push({of_parent * rates[taken.rank + 1], taken.parent, taken.rank + 1});
    if (tree.nodes[static_cast<size_t>(node)].depth < depth)
      options.push({taken.chance * rates[0], node, 0});
  }
  return tree;
}

}  // namespace kvick::engine
