#include "kv/prefix/prefix_tree.h"

#include <algorithm>

#include "base/check.h"

namespace kvick::kv {

struct PrefixTree::Node {
  Node* parent = nullptr;  // none: a root
  uint64_t salt = 0;       // of a root
  BlockId block = 0;
  std::vector<Token> tokens;                             // of the block's rows
  std::multimap<Token, std::unique_ptr<Node>> children;  // by their first token
  uint64_t used_at = 0, uses = 0;
  double used_seconds = 0;
  int32_t priority = INT32_MIN;  // the highest of its owners
  bool unused = false;           // only the tree uses the block
  bool evictable = false;        // and nothing continues it
  Rank rank;                     // under which it is in evictable_
};

namespace {

uint32_t common_prefix(std::span<const Token> a, std::span<const Token> b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<uint32_t>(std::mismatch(a.begin(), a.begin() + most, b.begin()).first -
                               a.begin());
}

}  // namespace

PrefixTree::PrefixTree(BlockPool& pool, Eviction eviction, base::Clock clock)
    : pool_(pool), eviction_(eviction), clock_(clock) {}

// A conversation may be as deep as its blocks are many: not by recursion.
// From the leaves up: by recursion a long text would overflow the stack, and a list of what is left
// would have to be allocated.
PrefixTree::~PrefixTree() {
  for (auto& [salt, root] : roots_)
    for (Node* node = root.get(); node != nullptr;) {
      if (!node->children.empty()) {
        node = node->children.begin()->second.get();
        continue;
      }
      node = node->parent;
      if (node != nullptr) node->children.erase(node->children.begin());
    }
}

BlockId PrefixTree::block_of(const Node* node) { return node->block; }

uint32_t PrefixTree::rows_of(BlockId block) const {
  return static_cast<uint32_t>(node_of_.at(block)->tokens.size());
}

PrefixTree::Node* PrefixTree::find_child(const Node& parent, std::span<const Token> tokens,
                                         uint32_t& common) const {
  Node* best = nullptr;
  common = 0;
  if (tokens.empty()) return nullptr;
  const auto [begin, end] = parent.children.equal_range(tokens.front());
  for (auto child = begin; child != end; ++child) {
    const uint32_t own = common_prefix(child->second->tokens, tokens);
    if (own > common) common = own, best = child->second.get();
  }
  return best;
}

std::vector<PrefixTree::Hit> PrefixTree::open(std::span<const Token> tokens, const Owner& owner) {
  std::vector<Hit> hits;
  const auto root = roots_.find(owner.salt);
  if (root == roots_.end()) return hits;
  const Node* at = root->second.get();
  for (bool whole = true; whole;) {
    uint32_t common;
    Node* child = find_child(*at, tokens, common);
    if (child == nullptr) break;
    pool_.add_user(child->block);
    const double idle = clock_() - child->used_seconds;
    touch(*child, owner);
    hits.push_back({child, child->block, common, idle});
    tokens = tokens.subspan(common);
    whole = common == pool_.rows();
    at = child;
  }
  return hits;
}

PrefixTree::Node& PrefixTree::root_of(uint64_t salt) {
  std::unique_ptr<Node>& root = roots_[salt];
  if (root == nullptr) {
    root = std::make_unique<Node>();
    root->salt = salt;
  }
  return *root;
}

PrefixTree::Node* PrefixTree::publish(const Owner& owner, Node* parent,
                                      std::span<const Token> tokens, BlockId block) {
  KVICK_CHECK(!tokens.empty() && tokens.size() <= pool_.rows(), "{} tokens of a block of {}",
              tokens.size(), pool_.rows());
  Node& above = parent != nullptr ? *parent : root_of(owner.salt);
  uint32_t common;
  Node* known = find_child(above, tokens, common);
  if (known != nullptr && common == tokens.size()) {
    if (known->block == block) return known;
    if (tokens.size() < pool_.rows()) return nullptr;
    pool_.add_user(known->block);
    touch(*known, owner);
    pool_.drop_user(block);
    return known;
  }
  auto node = std::make_unique<Node>();
  node->parent = &above;
  node->block = block;
  node->tokens.assign(tokens.begin(), tokens.end());
  Node* const made = node.get();
  pool_.add_user(block);
  node_of_[block] = made;
  above.children.emplace(tokens.front(), std::move(node));
  touch(*made, owner);
  // The beginning of a block that is here whole now, which nobody uses, is no longer worth keeping.
  if (known != nullptr && common == known->tokens.size() && known->evictable) remove(*known);
  if (parent != nullptr) update(above);
  return made;
}

void PrefixTree::drop_user(BlockId block) {
  pool_.drop_user(block);
  const auto found = node_of_.find(block);
  if (found == node_of_.end()) return;
  found->second->used_at = ++now_;
  found->second->used_seconds = clock_();
  update(*found->second);
}

// A node, its tokens, and its entries in its parent, in node_of_ and in evictable_.
uint64_t PrefixTree::bytes() const {
  constexpr uint64_t kEntry = 64;  // of a tree of the standard library, with what it holds
  return node_of_.size() * (sizeof(Node) + pool_.rows() * sizeof(Token) + 3 * kEntry);
}

bool PrefixTree::evict() {
  if (evictable_.empty()) return false;
  remove(*evictable_.begin()->second);
  return true;
}

void PrefixTree::touch(Node& node, const Owner& owner) {
  node.used_at = ++now_;
  node.used_seconds = clock_();
  ++node.uses;
  node.priority = std::max(node.priority, owner.priority);
  update(node);
}

int64_t PrefixTree::worth(const Node& node) const {
  switch (eviction_) {
    case Eviction::kLru:
      return 0;
    case Eviction::kLfu:
      return static_cast<int64_t>(node.uses);
    case Eviction::kPriority:
      return node.priority;
  }
  KVICK_CHECK(false, "eviction {}", static_cast<int>(eviction_));
}

// Whether the node's block is unused and the node may go, after users or children have changed.
void PrefixTree::update(Node& node) {
  const bool unused = pool_.users(node.block) == 1;
  if (unused != node.unused) unused ? ++unused_ : --unused_;
  node.unused = unused;
  if (node.evictable) evictable_.erase({node.rank, &node});
  node.evictable = unused && node.children.empty();
  node.rank = {worth(node), node.used_at, node.block};
  if (node.evictable) evictable_.insert({node.rank, &node});
}

void PrefixTree::remove(Node& node) {
  Node& parent = *node.parent;
  evictable_.erase({node.rank, &node});
  node_of_.erase(node.block);
  pool_.drop_user(node.block);
  --unused_;
  const auto [begin, end] = parent.children.equal_range(node.tokens.front());
  parent.children.erase(
      std::find_if(begin, end, [&](const auto& child) { return child.second.get() == &node; }));
  if (parent.parent != nullptr) return update(parent);
  if (parent.children.empty()) roots_.erase(parent.salt);
}

}  // namespace kvick::kv
