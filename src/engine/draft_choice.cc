#include "engine/draft_choice.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace kvick::engine {
namespace {

// What guesses must promise: less would drown in what measuring them is wrong by.
constexpr double kLeastGain = 1.04;

}  // namespace

std::vector<double> chances_of(const DraftTree& tree, const Acceptance& acceptance) {
  std::vector<double> chances;
  for (const DraftTree::Node& node : tree.nodes) {
    const double parent = node.parent < 0 ? 1 : chances[static_cast<size_t>(node.parent)];
    chances.push_back(parent * acceptance.rate(node.kind));
  }
  return chances;
}

double least_chance(std::span<const double> chances, const PlainStep& plain, const StepCost& cost) {
  std::vector<double> sorted(chances.begin(), chances.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  double best = kLeastGain * plain.tokens / cost.seconds(plain.rows), least = 2;
  double tokens = plain.tokens;
  for (size_t i = 0; i < sorted.size(); ++i) {
    tokens += sorted[i];
    const double rate = tokens / cost.seconds(plain.rows + static_cast<uint32_t>(i) + 1);
    // Equal chances stand or fall together.
    if (rate <= best || (i + 1 < sorted.size() && sorted[i + 1] == sorted[i])) continue;
    best = rate;
    least = sorted[i];
  }
  return least;
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
