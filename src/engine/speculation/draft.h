#pragma once
// Draft tokens at the tokens that come next, and who makes them. A draft costs a row of the next
// forward and never changes an answer: see speculation.h.

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/speculation/acceptance.h"
#include "kv/contract/kv.h"
#include "text/grammar/constraint.h"

namespace kvick::model {
class Adapter;
}

namespace kvick::engine {

using Token = kv::Token;
class Sampler;

// Draft tokens as a tree behind the last token of a text.
struct DraftTree {
  struct Node {
    Token token;
    int32_t parent;  // an earlier node; -1: behind the last token
    Kind kind;       // what its acceptance is measured as
    uint32_t depth;  // 1: right behind the last token
  };
  std::vector<Node> nodes;  // siblings have different tokens

  // The node with that parent and token, added if there is none.
  int32_t add(int32_t parent, Token token, Kind kind);
  // -1: there is none.
  int32_t child(int32_t parent, Token token) const;
  // Adds another tree's nodes, those that are here already as they are.
  void add_all(const DraftTree& other);
  // Drops all nodes but those that are kept, [nodes]; a node is never kept without its parent.
  void keep(const std::vector<bool>& kept);
};

// What a drafter may know. The store has no live step; it is left as it is.
struct DraftAsk {
  std::span<const Token> text;  // prompt and answer; the last token has no row yet
  uint32_t most = 0;            // draft tokens
  uint32_t depth = 0;           // of the tree
  kv::Store* store = nullptr;   // that keeps the text's rows
  kv::SeqId seq{};
  const Sampler* sampler = nullptr;        // as it will draw the next token
  const text::Constraint* form = nullptr;  // that the answer is held to, or null
  // That the text is computed with, as in model::Slot.
  const model::Adapter* adapter = nullptr;
  float adapter_scale = 1;
};

// Rows of a sequence that a step has committed: of the text's tokens from `first` on.
struct SeenRows {
  std::span<const Token> text;  // all tokens that have rows
  size_t first = 0;
  const float* states = nullptr;  // of these tokens, [text.size() - first][dim]
};

// One sequence's.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Whether it is told of every row that is committed, with the states that the model's output
  // layer reads.
  virtual bool reads_states() const { return false; }
  virtual void see(const SeenRows&) {}
  // Adds draft tokens to an empty tree; none if it has none, or no room to compute them.
  virtual void draft(const DraftAsk& ask, DraftTree& tree) = 0;
  // Of drafters that take time: how often a child of each rank is expected to come true; each level
  // of a tree takes them about equally long. Empty: they take none.
  virtual std::vector<double> rates() const { return {}; }
};

}  // namespace kvick::engine
