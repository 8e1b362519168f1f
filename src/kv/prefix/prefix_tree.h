#pragma once
// Maps tokens to the blocks that hold their rows: a tree in which the path from the root to a node
// spells the preceding tokens. There is one root per salt, so salts never share blocks. A node is
// one block; only a full block has children. The tree counts as a user of its blocks. A block
// without other users is kept until room is needed; then the least valuable block is evicted first,
// leaves before their parents.
//
// With a window (Shape::window) sequences use only the last blocks of their paths. Then any block
// that only the tree uses may be evicted while its children stay: a prompt needs only the blocks
// within its window. Blocks in the windows of checkpoints (kv::Checkpoints) are evicted last.
//
// Only open() and publish() allocate; if they throw, nothing has changed.

#include <map>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "kv/prefix/block_pool.h"
#include "kv/values/prefix_watcher.h"

namespace kvick::kv {

// Which block is evicted first: the least recently used, the least often used, or the one of the
// lowest priority. A block has the highest priority of the owners that used it, which is never
// above that of its ancestors.
enum class Eviction { kLru, kLfu, kPriority };

class PrefixTree {
 public:
  struct Node;
  // A block whose first `rows` rows match the tokens.
  struct Hit {
    Node* node;
    BlockId block;  // kNoBlock: all its rows lie before the window, and the caller is not a user
    uint32_t rows;
    double idle_seconds;  // since a sequence last opened, published or dropped it
  };
  static constexpr BlockId kNoBlock = UINT32_MAX;

  // watcher: told of whole blocks of owners without a salt; null: no watcher.
  PrefixTree(BlockPool& pool, Eviction eviction, base::Clock clock = base::steady_seconds,
             std::shared_ptr<PrefixWatcher> watcher = nullptr);
  ~PrefixTree();

  // Returns the longest cached prefix of the tokens under the owner's salt, block by block; only
  // the last hit may be part of a block. The caller becomes a user of each block that its window
  // reaches.
  std::vector<Hit> open(std::span<const Token> tokens, const Owner& owner);
  // Registers that `block` holds the rows of `tokens` after `parent` (null: at the start), and
  // returns their node. If the tree had a block for these tokens, that node is returned and the
  // caller becomes a user of its block instead of `block`. A partial block must not grow any more;
  // if the tree has one as long or longer, returns null and changes nothing.
  Node* publish(const Owner& owner, Node* parent, std::span<const Token> tokens, BlockId block);
  // Keeps a node as parent of later blocks, even if its own block is evicted. null: no effect.
  void hold(Node* node);
  void let_go(Node* node);
  // Marks nodes as part of a checkpoint's window: `count` nodes on the path to `tip`, ending just
  // before its last `skipped` nodes.
  void mark(Node* tip, uint32_t skipped, uint32_t count);
  // Drops one user of a block, whether or not the block is in the tree.
  void drop_user(BlockId block);
  // Evicts the least valuable block among those that only the tree uses; false if there is
  // none.
  bool evict();

  static BlockId block_of(const Node* node);
  // Returns how many rows of a block the tree knows.
  uint32_t rows_of(BlockId block) const;
  uint32_t unused() const { return unused_; }    // blocks that only the tree uses
  uint64_t evicted() const { return evicted_; }  // blocks, since the tree was made
  // Returns the seconds since the last use of the next block to evict; negative: no block can be
  // evicted. With a window, blocks outside all checkpoint windows count as never used.
  double idle_seconds() const;
  size_t roots() const { return roots_.size(); }
  // Returns the approximate bytes of the tree's nodes.
  uint64_t bytes() const;

 private:
  // Eviction order: blocks that no checkpoint needs come first. Ties: least recently used first.
  using Rank = std::tuple<bool, int64_t, uint64_t, BlockId>;
  using ByToken = std::multimap<Token, std::unique_ptr<Node>>;

  Node* find_child(const Node& parent, std::span<const Token> tokens, uint32_t& common) const;
  Node* find_root(uint64_t salt) const;
  std::unique_ptr<Node> make_node(std::span<const Token> tokens) const;
  void attach(Node& node, BlockId block);
  void name(Node& node, const Owner& owner) const;
  void touch(Node& node, const Owner& owner);
  void update(Node& node);
  int64_t worth(const Node& node) const;
  void give_back(Node& node);
  void prune(Node* node);

  BlockPool& pool_;
  Eviction eviction_;
  base::Clock clock_;
  std::shared_ptr<PrefixWatcher> watcher_;
  std::map<uint64_t, std::unique_ptr<Node>> roots_;  // by salt; every root has children
  std::map<BlockId, Node*> node_of_;
  std::set<std::pair<Rank, Node*>> evictable_;  // least valuable first
  uint32_t nodes_ = 0;                          // without roots
  uint32_t unused_ = 0;
  uint64_t now_ = 0;  // counts uses
  uint64_t evicted_ = 0;
};

}  // namespace kvick::kv
