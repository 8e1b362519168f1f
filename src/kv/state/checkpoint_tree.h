#pragma once
// Which tokens led to which states: a tree with one root per salt, in which the path to a node
// spells the tokens before it. A node may have a state, which is a checkpoint then.
//
// Room is made by what a checkpoint is worth (GreedyDual-Size with frequency, Cherkasova 1998; all
// checkpoints of a store have one size): the tokens that would be read again without it, times how
// often prompts went on from it, on top of the worth of the last one that went. One of those goes
// that were unused at least half as long as the oldest, so that what is new gets its chance.

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/function_ref.h"
#include "kv/values/batch.h"

namespace kvick::kv {

// Of all sequences and checkpoints that have come to it; nobody changes it any more.
using SharedState = std::shared_ptr<std::byte[]>;

class CheckpointTree {
 public:
  // Of one store, and before the end of one sequence: the least worth of them goes for a new one.
  static constexpr size_t kMost = 4096;
  static constexpr size_t kMostOfSequence = 32;

  explicit CheckpointTree(base::Clock clock = base::steady_seconds) : clock_(clock) {}

  struct Found {
    SharedState state;    // null: there is none
    uint32_t tokens = 0;  // that led to it
    uint32_t seen = 0;    // leading tokens that are on a path to any checkpoint
  };
  // The checkpoint after the longest prefix of the prompt; marks it as used.
  Found find(std::span<const Token> prompt, uint64_t salt);
  // Nothing happens if one is there already. Throws std::bad_alloc, and then has none.
  void keep(std::span<const Token> tokens, uint64_t salt, const SharedState& state);
  // Evicts the least valuable checkpoint that no sequence uses; false: there is none.
  bool evict();

  size_t size() const { return kept_.size(); }
  size_t unused() const;        // that no sequence uses
  double idle_seconds() const;  // of the unused one that was used longest ago; negative: none
  // Approximate bytes of nodes and tokens.
  uint64_t bytes() const { return nodes_ * (sizeof(Node) + 64) + tokens_ * sizeof(Token); }
  // All checkpoints: their states, and how many tokens led there.
  void for_each(base::FunctionRef<void(const SharedState&, uint32_t)> use) const;

 private:
  struct Node {
    Node* parent = nullptr;  // null: a root
    uint64_t salt = 0;       // of a root
    std::vector<Token> tokens;
    uint32_t end = 0;  // tokens up to the end of its own
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
  std::vector<Node*> kept_;                          // that have a state
  double worth_gone_ = 0;                            // of the last one that was evicted
  uint64_t nodes_ = 0, tokens_ = 0;
};

}  // namespace kvick::kv
