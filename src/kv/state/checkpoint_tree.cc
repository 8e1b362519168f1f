#include "kv/state/checkpoint_tree.h"

#include <algorithm>
#include <new>

namespace kvick::kv {
namespace {

size_t common_tokens(std::span<const Token> a, std::span<const Token> b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(most), b.begin()).first -
      a.begin());
}

}  // namespace

CheckpointTree::Found CheckpointTree::find(std::span<const Token> prompt, uint64_t salt) {
  Found found;
  const auto root = roots_.find(salt);
  if (root == roots_.end()) return found;
  Node* best = nullptr;
  for (Node* at = root->second.get(); found.seen < prompt.size();) {
    const auto child = at->children.find(prompt[found.seen]);
    if (child == at->children.end()) break;
    at = child->second.get();
    const size_t common = common_tokens(at->tokens, prompt.subspan(found.seen));
    found.seen += static_cast<uint32_t>(common);
    if (common < at->tokens.size()) break;
    if (at->state != nullptr) best = at;
  }
  if (best == nullptr) return found;
  touch(*best);
  found.state = best->state;
  found.tokens = best->end;
  return found;
}

// Ancestors count as used now, too, but not as resumed from: their `uses` stay the same.
void CheckpointTree::touch(Node& node) {
  ++node.uses;
  node.base_worth = worth_gone_;
  const double now = clock_();
  for (Node* at = &node; at != nullptr; at = at->parent) at->used_seconds = now;
}

void CheckpointTree::keep(std::span<const Token> tokens, uint64_t salt, const SharedState& state) {
  kept_.reserve(kept_.size() + 1);
  Node* const node = reach(tokens, salt);
  if (node->state == nullptr) {
    kept_.push_back(node);
    node->state = state;
    node->uses = 1;
  }
  node->base_worth = worth_gone_;
  const double now = clock_();
  size_t before = 0;
  for (Node* at = node; at != nullptr; at = at->parent) {
    at->used_seconds = now;
    if (at != node && at->state != nullptr) ++before;
  }
  if (before >= kMostOfSequence) drop(*least_worth(node, node));
  if (kept_.size() > kMost) drop(*least_worth(nullptr, node));
}

// Returns the node for these tokens, making it if there is none.
CheckpointTree::Node* CheckpointTree::reach(std::span<const Token> tokens, uint64_t salt) {
  auto root = roots_.find(salt);
  if (root == roots_.end()) {
    auto made = std::make_unique<Node>();
    made->salt = salt;
    root = roots_.emplace(salt, std::move(made)).first;
  }
  Node* at = root->second.get();
  while (!tokens.empty()) {
    const auto child = at->children.find(tokens.front());
    if (child == at->children.end()) {
      auto made = std::make_unique<Node>();
      made->parent = at;
      made->tokens.assign(tokens.begin(), tokens.end());
      made->end = at->end + static_cast<uint32_t>(tokens.size());
      at = at->children.emplace(tokens.front(), std::move(made)).first->second.get();
      ++nodes_;
      tokens_ += tokens.size();
      return at;
    }
    const size_t common = common_tokens(child->second->tokens, tokens);
    if (common < child->second->tokens.size()) {
      split(child->second, common);
      ++nodes_;
    }
    at = child->second.get();
    tokens = tokens.subspan(common);
  }
  return at;
}

// Splits off the first `common` tokens of a node into a new node before it.
void CheckpointTree::split(std::unique_ptr<Node>& link, size_t common) {
  const auto at = link->tokens.begin() + static_cast<ptrdiff_t>(common);
  auto upper = std::make_unique<Node>();
  upper->tokens.assign(link->tokens.begin(), at);
  std::vector<Token> rest(at, link->tokens.end());
  std::unique_ptr<Node>& below = upper->children[rest.front()];
  // Nothing below allocates.
  upper->parent = link->parent;
  upper->end = link->end - static_cast<uint32_t>(rest.size());
  upper->used_seconds = link->used_seconds;
  link->tokens.swap(rest);
  link->parent = upper.get();
  below = std::move(link);
  link = std::move(upper);
}

double CheckpointTree::worth(const Node& node) const {
  const Node* before = node.parent;
  while (before != nullptr && before->state == nullptr) before = before->parent;
  const uint32_t read_again = node.end - (before != nullptr ? before->end : 0);
  return node.base_worth + node.uses * read_again;
}

// Returns the checkpoint of least worth among the ancestors of `path`, or among all if it is null;
// never `but`.
CheckpointTree::Node* CheckpointTree::least_worth(const Node* path, const Node* but) const {
  Node* least = nullptr;
  double least_worth = 0;
  const auto consider = [&](Node* node) {
    if (node == but || node->state == nullptr) return;
    const double own = worth(*node);
    if (least != nullptr && own >= least_worth) return;
    least = node;
    least_worth = own;
  };
  if (path == nullptr)
    for (Node* const node : kept_) consider(node);
  else
    for (Node* at = path->parent; at != nullptr; at = at->parent) consider(at);
  return least;
}

bool CheckpointTree::evict() {
  const double idle = idle_seconds(), latest = clock_() - idle / 2;
  Node* least = nullptr;
  double least_worth = 0;
  for (Node* const node : kept_) {
    if (node->state.use_count() > 1 || node->used_seconds > latest) continue;
    const double own = worth(*node);
    if (least != nullptr && own >= least_worth) continue;
    least = node;
    least_worth = own;
  }
  if (least == nullptr) return false;
  worth_gone_ = std::max(worth_gone_, least_worth);
  drop(*least);
  return true;
}

void CheckpointTree::drop(Node& node) {
  node.state = nullptr;
  const auto at = std::find(kept_.begin(), kept_.end(), &node);
  *at = kept_.back();
  kept_.pop_back();
  prune(&node);
}

// Removes a node without a state and without children, then its ancestors that have become such
// nodes.
void CheckpointTree::prune(Node* node) {
  while (node->parent != nullptr && node->state == nullptr && node->children.empty()) {
    Node* const parent = node->parent;
    tokens_ -= node->tokens.size();
    --nodes_;
    parent->children.erase(parent->children.find(node->tokens.front()));
    node = parent;
  }
  if (node->parent == nullptr) {
    if (node->children.empty()) roots_.erase(node->salt);
  } else if (node->state == nullptr && node->children.size() == 1 && merge(*node)) {
    --nodes_;
  }
}

// Replaces a node by its only child, so the number of checkpoints bounds the length of a path.
// Returns false if there was no memory for that; then the node stays.
bool CheckpointTree::merge(Node& node) {
  std::unique_ptr<Node> child = std::move(node.children.begin()->second);
  try {
    child->tokens.insert(child->tokens.begin(), node.tokens.begin(), node.tokens.end());
  } catch (const std::bad_alloc&) {
    node.children.begin()->second = std::move(child);
    return false;
  }
  child->parent = node.parent;
  node.parent->children.find(node.tokens.front())->second = std::move(child);
  return true;
}

size_t CheckpointTree::unused() const {
  return static_cast<size_t>(std::count_if(
      kept_.begin(), kept_.end(), [](const Node* node) { return node->state.use_count() == 1; }));
}

double CheckpointTree::idle_seconds() const {
  const double now = clock_();
  double idle = -1;
  for (const Node* const node : kept_)
    if (node->state.use_count() == 1) idle = std::max(idle, now - node->used_seconds);
  return idle;
}

void CheckpointTree::for_each(base::FunctionRef<void(const SharedState&, uint32_t)> use) const {
  for (const Node* const node : kept_) use(node->state, node->end);
}

}  // namespace kvick::kv
