#pragma once
// Finds the states that belong to known token prefixes: a tree with one root per salt, in which the
// path to a node spells the tokens before it. A node with a state is a checkpoint.
//
// Eviction goes by worth (GreedyDual-Size with frequency, Cherkasova 1998; all checkpoints of a
// store have the same size). A checkpoint's worth is the number of tokens that would be read again
// without it, times the number of prompts that resumed from it, plus the worth of the last evicted
// checkpoint when this one was last used. Only checkpoints unused at least half as long as the
// oldest one are candidates, so new ones have a chance to be used.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"
#include "kv/values/batch.h"

namespace kvick::kv {

// A state shared by sequences and checkpoints; never changed once it is shared.
using SharedState = std::shared_ptr<std::byte[]>;

class CheckpointTree {
 public:
  // Most checkpoints of one store, and most before the end of one sequence; when a new one exceeds
  // these, the one of least worth is dropped.
  static constexpr size_t kMost = 4096;
  static constexpr size_t kMostOfSequence = 32;

  explicit CheckpointTree(base::Clock clock = base::steady_seconds) : clock_(clock) {}

  struct Found {
    SharedState state;    // null: no checkpoint found
    uint32_t tokens = 0;  // tokens before the state
    uint32_t seen = 0;    // leading tokens of the prompt on a path to any checkpoint
  };
  // Returns the checkpoint after the longest known prefix of the prompt, and marks it as used.
  Found find(std::span<const Token> prompt, uint64_t salt);
  // Keeps `state` as the checkpoint after `tokens`, unless these tokens have one already. If memory
  // runs out it throws std::bad_alloc and keeps no checkpoint.
  void keep(std::span<const Token> tokens, uint64_t salt, const SharedState& state);
  // Evicts the least valuable checkpoint that no sequence uses; false: there is none.
  bool evict();

  size_t size() const { return kept_.size(); }
  size_t unused() const;        // checkpoints that no sequence uses
  double idle_seconds() const;  // of the least recently used unused checkpoint; negative: none
  // Approximate bytes of nodes and tokens.
  uint64_t bytes() const { return nodes_ * (sizeof(Node) + 64) + tokens_ * sizeof(Token); }
  // Calls `use` for every checkpoint with its state and the number of tokens before it.
  void for_each(base::FunctionRef<void(const SharedState&, uint32_t)> use) const;

 private:
  struct Node {
    Node* parent = nullptr;  // null: a root
    uint64_t salt = 0;       // of a root only
    std::vector<Token> tokens;
    uint32_t end = 0;  // tokens from the root to the end of this node
    std::map<Token, std::unique_ptr<Node>> children;
    SharedState state;
    double uses = 1, base_worth = 0, used_seconds = 0;
  };

  Node* reach(std::span<const Token> tokens, uint64_t salt);
  static void split(std::unique_ptr<Node>& link, size_t common);
  void touch(Node& node);
  double worth(const Node& node) const;
  Node* least_worth(const Node* path, const Node* but) const;
  void drop(Node& node);
  void prune(Node* node);
  static bool merge(Node& node);

  base::Clock clock_;
  std::map<uint64_t, std::unique_ptr<Node>> roots_;  // by salt
  std::vector<Node*> kept_;                          // nodes with a state
  double worth_gone_ = 0;                            // worth of the last evicted checkpoint
  uint64_t nodes_ = 0, tokens_ = 0;
};

}  // namespace kvick::kv
