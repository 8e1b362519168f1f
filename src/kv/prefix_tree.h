#pragma once
// Which blocks hold the rows of which tokens: a tree in which the path from the root to a node
// spells what came before. A node is one block; only a full one has children. The tree is a user of
// its blocks. One that nobody else uses is kept until room is needed, and then the one that matters
// least goes first, leaves before what they continue.

#include <map>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <vector>

#include "kv/block_pool.h"

namespace kvick::kv {

enum class Eviction { kLru, kLfu };  // least recently used, least often used

class PrefixTree {
 public:
  struct Node;
  // A block whose first `rows` rows are those asked for.
  struct Hit {
    Node* node;
    BlockId block;
    uint32_t rows;
  };

  PrefixTree(BlockPool& pool, Eviction eviction);
  ~PrefixTree();

  // The longest known beginning of the tokens, block by block; only the last may be part of one.
  // The caller becomes a user of each block.
  std::vector<Hit> open(std::span<const Token> tokens);
  // Says that `block` holds the rows of `tokens` behind `parent` (null: at the beginning). The node
  // that does from now on: another one if such a block was known, and then the caller, who is a
  // user of `block`, is one of that node's instead. Tokens fewer than a block's are for a block
  // that grows no more; null if a longer one is known, and nothing has changed.
  Node* publish(Node* parent, std::span<const Token> tokens, BlockId block);
  // One user fewer of a block, which may be the tree's.
  void drop_user(BlockId block);
  // Gives back the block that matters least of those that only the tree uses; false if there is
  // none.
  bool evict();

  static BlockId block_of(const Node* node);
  uint32_t unused() const { return unused_; }  // blocks that only the tree uses

 private:
  // What goes first. Of equals the one used longest ago.
  using Rank = std::tuple<uint64_t, uint64_t, BlockId>;

  Node* find_child(const Node& parent, std::span<const Token> tokens, uint32_t& common) const;
  void touch(Node& node);
  void update(Node& node);
  void remove(Node& node);

  BlockPool& pool_;
  Eviction eviction_;
  std::unique_ptr<Node> root_;
  std::map<BlockId, Node*> node_of_;
  std::set<std::pair<Rank, Node*>> evictable_;  // leaves that only the tree uses
  uint32_t unused_ = 0;
  uint64_t now_ = 0;  // counts uses
};

}  // namespace kvick::kv
