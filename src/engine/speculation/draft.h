#pragma once
// Draft tokens, which are guesses at the next tokens, and the drafters that make them. A draft
// token costs a row of the next forward and never changes an answer: see speculation.h.

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

// A tree of draft tokens after the last token of a text.
struct DraftTree {
  struct Node {
    Token token;
    int32_t parent;  // index of an earlier node; -1: the last token
    Kind kind;       // selects the measured acceptance rate
    uint32_t depth;  // 1: directly after the last token
  };
  std::vector<Node> nodes;  // siblings have different tokens

  // Returns the node with this parent and token; adds it if there is none.
  int32_t add(int32_t parent, Token token, Kind kind);
  // Returns the node with this parent and token; -1: there is none.
  int32_t child(int32_t parent, Token token) const;
  // Adds another tree's nodes. Nodes that are here already keep their kind.
  void add_all(const DraftTree& other);
  // Drops all nodes except those marked in kept, [nodes]. A kept node's parent must be kept too.
  void keep(const std::vector<bool>& kept);
};

// What a drafter is asked for, and what it may use. The store has no step in progress.
struct DraftAsk {
  std::span<const Token> text;  // prompt and answer; the last token has no row yet
  uint32_t most = 0;            // most draft tokens
  uint32_t depth = 0;           // largest depth of the tree
  kv::Store* store = nullptr;   // keeps the text's rows; drafters leave it unchanged
  kv::SeqId seq{};
  const Sampler* sampler = nullptr;        // in the state in which it will draw the next token
  const text::Constraint* form = nullptr;  // the constraint of the answer, or null
  // The adapter that the text is computed with, as in model::Slot.
  const model::Adapter* adapter = nullptr;
  float adapter_scale = 1;
};

// Rows of a sequence that a step has committed: those of the text's tokens from `first` on.
struct SeenRows {
  std::span<const Token> text;  // all tokens that have rows
  size_t first = 0;
  const float* states = nullptr;  // of the tokens from `first` on, [text.size() - first][dim]
};

// Makes the draft tokens of one sequence.
class Drafter {
 public:
  virtual ~Drafter() = default;
  // Whether see() must be called with every committed row, and the states that the model's output
  // layer reads.
  virtual bool reads_states() const { return false; }
  virtual void see(const SeenRows&) {}
  // Adds draft tokens to an empty tree; none if it has no guess, or no room to compute one.
  virtual void draft(const DraftAsk& ask, DraftTree& tree) = 0;
  // Whether the last draft() only read a part of a long text: the next one continues.
  virtual bool is_behind() const { return false; }
  // For drafters that take time, about the same for each level of a tree: returns how often a child
  // of each rank is expected to be accepted. Empty: drafting takes no time.
  virtual std::vector<double> rates() const { return {}; }
};

}  // namespace kvick::engine
