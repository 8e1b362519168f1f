#include "kv/prefix/prefix_tree.h"

#include <algorithm>
#include <limits>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"

namespace kvick::kv {

struct PrefixTree::Node {
  Node* parent = nullptr;  // null: a root
  uint64_t salt = 0;       // of a root
  uint64_t id = 0;         // by which the watcher knows the node; 0: it does not
  BlockId block = kNoBlock;
  std::vector<Token> tokens;  // one per row of the block
  ByToken children;           // by their first token
  uint64_t used_at = 0, uses = 0;
  double used_seconds = 0;
  int32_t priority = INT32_MIN;  // the highest of its owners
  uint32_t holders = 0;          // PrefixTree::hold
  bool marked = false;           // a checkpoint needs the block
  bool unused = false;           // only the tree uses the block
  bool evictable = false;        // and it may be evicted
  Rank rank;                     // its key in evictable_
  // The node's entries for node_of_ and evictable_ while it is not in them. They are allocated with
  // the node, so that giving blocks back allocates nothing.
  std::map<BlockId, Node*>::node_type by_block;
  std::set<std::pair<Rank, Node*>>::node_type by_rank;
};

namespace {

uint32_t common_prefix(std::span<const Token> a, std::span<const Token> b) {
  const size_t most = std::min(a.size(), b.size());
  return static_cast<uint32_t>(std::mismatch(a.begin(), a.begin() + most, b.begin()).first -
                               a.begin());
}

}  // namespace

PrefixTree::PrefixTree(BlockPool& pool, Eviction eviction, base::Clock clock,
                       std::shared_ptr<PrefixWatcher> watcher)
    : pool_(pool), eviction_(eviction), clock_(clock), watcher_(std::move(watcher)) {}

// Frees nodes from the leaves up, without recursion, which would overflow the stack for a long
// text, and without a list of remaining nodes, which would have to be allocated.
PrefixTree::~PrefixTree() {
  for (const auto& [block, node] : node_of_)
    if (node->id != 0) watcher_->removed(node->id);
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
  uint32_t length = 0;
  const Node* at = find_root(owner.salt);
  for (bool whole = at != nullptr; whole;) {
    uint32_t common;
    Node* child = find_child(*at, tokens, common);
    if (child == nullptr) break;
    hits.push_back({child, child->block, common, clock_() - child->used_seconds});
    length += common;
    tokens = tokens.subspan(common);
    whole = common == pool_.rows();
    at = child;
  }
  // Shortens the hits until no block within the window is missing.
  size_t needed = 0;
  for (size_t i = hits.size(); i > (needed = pool_.shape().first_seen(length) / pool_.rows()); --i)
    if (hits[i - 1].block == kNoBlock) {
      length = static_cast<uint32_t>(i - 1) * pool_.rows();
      hits.resize(i - 1);
    }
  for (size_t i = 0; i < hits.size(); ++i) {
    if (i < needed) {
      hits[i].block = kNoBlock;
      continue;
    }
    pool_.add_user(hits[i].block);
    touch(*hits[i].node, owner);
  }
  return hits;
}

PrefixTree::Node* PrefixTree::find_root(uint64_t salt) const {
  const auto root = roots_.find(salt);
  return root == roots_.end() ? nullptr : root->second.get();
}

// Makes a node without a block and parent.
std::unique_ptr<PrefixTree::Node> PrefixTree::make_node(std::span<const Token> tokens) const {
  auto node = std::make_unique<Node>();
  node->tokens.assign(tokens.begin(), tokens.end());
  std::map<BlockId, Node*> by_block = {{kNoBlock, node.get()}};
  node->by_block = by_block.extract(by_block.begin());
  std::set<std::pair<Rank, Node*>> by_rank = {{Rank(), node.get()}};
  node->by_rank = by_rank.extract(by_rank.begin());
  return node;
}

// Makes `block` the node's block and the tree a user of it.
void PrefixTree::attach(Node& node, BlockId block) {
  pool_.add_user(block);
  node.block = block;
  node.by_block.key() = block;
  node_of_.insert(std::move(node.by_block));
  if (node.id != 0)
    watcher_->stored({.id = node.id, .parent = node.parent->id, .tokens = node.tokens});
}

// Gives the node of a whole block the id by which the watcher knows it.
void PrefixTree::name(Node& node, const Owner& owner) const {
  if (watcher_ == nullptr || owner.salt != 0 || node.tokens.size() < pool_.rows()) return;
  node.id =
      XXH3_64bits_withSeed(node.tokens.data(), node.tokens.size() * sizeof(Token), node.parent->id);
}

PrefixTree::Node* PrefixTree::publish(const Owner& owner, Node* parent,
                                      std::span<const Token> tokens, BlockId block) {
  KVICK_CHECK(!tokens.empty() && tokens.size() <= pool_.rows(), "{} tokens of a block of {}",
              tokens.size(), pool_.rows());
  Node* above = parent != nullptr ? parent : find_root(owner.salt);
  uint32_t common = 0;
  Node* known = above != nullptr ? find_child(*above, tokens, common) : nullptr;
  if (known != nullptr && common == tokens.size()) {
    if (known->block == block) return known;
    if (tokens.size() < pool_.rows()) return nullptr;
    if (known->block == kNoBlock) {
      attach(*known, block);
    } else {
      pool_.add_user(known->block);
      pool_.drop_user(block);
    }
    touch(*known, owner);
    return known;
  }
  ByToken one;
  Node* const made = one.emplace(tokens.front(), make_node(tokens))->second.get();
  if (above == nullptr) {
    auto root = std::make_unique<Node>();
    root->salt = owner.salt;
    above = roots_.emplace(owner.salt, std::move(root)).first->second.get();
  }
  // From here on nothing is allocated.
  above->children.insert(one.extract(one.begin()));
  made->parent = above;
  ++nodes_;
  name(*made, owner);
  attach(*made, block);
  touch(*made, owner);
  // `known` is a partial block, and the new block begins with the same tokens. If only the tree
  // uses it, it is no longer worth keeping.
  if (known != nullptr && common == known->tokens.size() && known->evictable) give_back(*known);
  update(*above);
  return made;
}

void PrefixTree::hold(Node* node) {
  if (node != nullptr) ++node->holders;
}

void PrefixTree::let_go(Node* node) {
  if (node == nullptr) return;
  --node->holders;
  prune(node);
}

void PrefixTree::mark(Node* tip, uint32_t skipped, uint32_t count) {
  for (Node* node = tip; node != nullptr && node->parent != nullptr && skipped + count > 0;
       node = node->parent) {
    if (skipped > 0) {
      --skipped;
      continue;
    }
    --count;
    if (node->block == kNoBlock || node->marked) continue;
    node->marked = true;
    update(*node);
  }
}

double PrefixTree::idle_seconds() const {
  if (evictable_.empty()) return -1;
  const Node& next = *evictable_.begin()->second;
  if (pool_.shape().window > 0 && !next.marked) return std::numeric_limits<double>::infinity();
  return clock_() - next.used_seconds;
}

void PrefixTree::drop_user(BlockId block) {
  pool_.drop_user(block);
  const auto found = node_of_.find(block);
  if (found == node_of_.end()) return;
  found->second->used_at = ++now_;
  found->second->used_seconds = clock_();
  update(*found->second);
}

// Per node: the node, its tokens, and its entries in its parent, in node_of_ and in evictable_.
uint64_t PrefixTree::bytes() const {
  constexpr uint64_t kEntry = 64;  // bytes of one entry of a std::map or std::set
  return nodes_ * (sizeof(Node) + pool_.rows() * sizeof(Token) + 3 * kEntry);
}

bool PrefixTree::evict() {
  if (evictable_.empty()) return false;
  give_back(*evictable_.begin()->second);
  ++evicted_;
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

// Updates whether the node's block is unused and evictable, after users or children have changed.
void PrefixTree::update(Node& node) {
  const bool unused = node.block != kNoBlock && pool_.users(node.block) == 1;
  if (unused != node.unused) unused ? ++unused_ : --unused_;
  node.unused = unused;
  if (node.evictable) node.by_rank = evictable_.extract({node.rank, &node});
  node.evictable = unused && (node.children.empty() || pool_.shape().window > 0);
  if (!node.evictable) return;
  node.rank = {node.marked, worth(node), node.used_at, node.block};
  node.by_rank.value() = {node.rank, &node};
  evictable_.insert(std::move(node.by_rank));
}

// Gives back the node's block, which only the tree uses, and removes the node if nothing needs it.
void PrefixTree::give_back(Node& node) {
  if (node.id != 0) watcher_->removed(node.id);
  node.by_block = node_of_.extract(node.block);
  pool_.drop_user(node.block);
  node.block = kNoBlock;
  node.marked = false;
  update(node);
  prune(&node);
}

// Removes a node without block, children and holders, then each ancestor that has become such.
void PrefixTree::prune(Node* node) {
  while (node->parent != nullptr && node->block == kNoBlock && node->children.empty() &&
         node->holders == 0) {
    Node* const parent = node->parent;
    const auto [begin, end] = parent->children.equal_range(node->tokens.front());
    parent->children.erase(
        std::find_if(begin, end, [&](const auto& child) { return child.second.get() == node; }));
    --nodes_;
    node = parent;
  }
  if (node->parent != nullptr) return update(*node);
  if (node->children.empty()) roots_.erase(node->salt);
}

}  // namespace kvick::kv
