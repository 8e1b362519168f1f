#pragma once
// Which blocks hold the rows of which tokens: a tree in which the path from the root to a node
// spells what came before, with one root per salt, so that those of different salts never meet. A
// node is one block; only a full one has children. The tree is a user of its blocks. One that
// nobody else uses is kept until room is needed, and then the one that matters least goes first,
// leaves before what they continue.
//
// With a window (Shape::window) sequences use only the last blocks of their paths. Then any block
// that only the tree uses may go, and what continues it stays: a prompt needs only the blocks
// within its window. Those in the windows of checkpoints (kv::Checkpoints) go last.
//
// Only open() and publish() allocate; what they throw changes nothing.

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

// Least recently used, least often used, used by the owners of the lowest priority: what counts is
// the highest that a block has seen, which what comes before it has seen as well.
enum class Eviction { kLru, kLfu, kPriority };

class PrefixTree {
 public:
  struct Node;
  // A block whose first `rows` rows are those asked for.
  struct Hit {
    Node* node;
    BlockId block;  // kNoBlock: all its rows are before the window, and the caller is no user
    uint32_t rows;
    double idle_seconds;  // since a sequence began, went on or ended with it
  };
  static constexpr BlockId kNoBlock = UINT32_MAX;

  // watcher: told of whole blocks of owners without a salt; null: nobody.
  PrefixTree(BlockPool& pool, Eviction eviction, base::Clock clock = base::steady_seconds,
             std::shared_ptr<PrefixWatcher> watcher = nullptr);
  ~PrefixTree();

  // The longest beginning of the tokens that is known to owners of that salt, block by block; only
  // the last may be part of one. The caller becomes a user of each block that its window reaches.
  std::vector<Hit> open(std::span<const Token> tokens, const Owner& owner);
  // Says that `block` holds the rows of `tokens` behind `parent` (null: at the beginning). The node
  // that does from now on: another one if such a block was known, and then the caller, who is a
  // user of `block`, is one of that node's instead. Tokens fewer than a block's are for a block
  // that grows no more; null if a longer one is known, and nothing has changed.
  Node* publish(const Owner& owner, Node* parent, std::span<const Token> tokens, BlockId block);
  // A node that is the parent of blocks to come stays, though its block may go; null: nothing.
  void hold(Node* node);
  void let_go(Node* node);
  // Of the path to `tip`, but for its last `skipped` nodes, the last `count` ones are in the window
  // of a checkpoint.
  void mark(Node* tip, uint32_t skipped, uint32_t count);
  // One user fewer of a block, which may be the tree's.
  void drop_user(BlockId block);
  // Gives back the block that matters least of those that only the tree uses; false if there is
  // none.
  bool evict();

  static BlockId block_of(const Node* node);
  // Rows of a block of the tree's that it knows.
  uint32_t rows_of(BlockId block) const;
  uint32_t unused() const { return unused_; }    // blocks that only the tree uses
  uint64_t evicted() const { return evicted_; }  // blocks, since the tree was made
  // Since the block that goes next was used last; negative: none may go. Blocks that no checkpoint
  // needs, of a tree with a window, are as good as never used.
  double idle_seconds() const;
  size_t roots() const { return roots_.size(); }
  // About what its nodes take.
  uint64_t bytes() const;

 private:
  // What goes first: what no checkpoint needs. Of equals the one used longest ago.
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
  std::map<uint64_t, std::unique_ptr<Node>> roots_;  // by salt; none without children
  std::map<BlockId, Node*> node_of_;
  std::set<std::pair<Rank, Node*>> evictable_;  // that may go: see above
  uint32_t nodes_ = 0;                          // without roots
  uint32_t unused_ = 0;
  uint64_t now_ = 0;  // counts uses
  uint64_t evicted_ = 0;
};

}  // namespace kvick::kv
