#pragma once
// Runs a grammar as a deterministic automaton whose states (nodes) are built when they are first
// reached, as lazy regular-expression engines do. A node is the set of all readings of the text so
// far; a reading is a state of the grammar and the stack of calls to return to.

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "text/grammar/byte_grammar.h"

namespace kvick::text {

// Not thread-safe. In all automata of equal grammars, nodes reached by the same bytes accept the
// same bytes.
class ByteAutomaton {
 public:
  using Node = int32_t;
  static constexpr Node kDead = -1;
  // The most readings that are followed at once. Each level of an ambiguous schema may double their
  // number. Readings beyond the limit are dropped; what the rest accepts still matches the grammar.
  static constexpr uint32_t kMostReadings = 1024;

  explicit ByteAutomaton(std::shared_ptr<const Grammar> grammar);

  Node start();
  Node step(Node node, uint8_t byte) {
    const Node known = next_[static_cast<size_t>(node) * classes_ + grammar_->class_of[byte]];
    return known != kUnknown ? known : find_step(node, byte);
  }
  bool complete(Node node) const { return nodes_[static_cast<size_t>(node)].complete; }
  // Returns the number of readings at a node, which is the cost of a step from it.
  size_t readings(Node node) const { return nodes_[static_cast<size_t>(node)].readings->size(); }
  // Returns how many more characters that need no escape a string accepts here; 0 outside of
  // strings.
  uint32_t room(Node node) const { return nodes_[static_cast<size_t>(node)].room; }

  // Whether a new automaton should replace this one to free memory. The new one copies a node by
  // adopt().
  bool full() const { return next_.size() + held_ > kMostHeld; }
  Node adopt(const ByteAutomaton& other, Node node);

 private:
  static constexpr Node kUnknown = -2;
  static constexpr size_t kMostHeld = 4 << 20;  // numbers of 4 or 8 bytes

  using Stack = uint32_t;  // 0: empty
  struct Frame {
    StateId then;
    Stack below;
    uint32_t depth;
    uint64_t order = 0;  // from the states alone: the same in all automata of a grammar
  };
  // State (high half) and stack (low half).
  using Reading = uint64_t;
  using Readings = std::vector<Reading>;
  struct HashOfReadings {
    size_t operator()(const Readings& readings) const;
  };
  struct NodeData {
    const Readings* readings;  // sorted by before(); only those from which a byte can follow
    bool complete;
    uint32_t room;
  };

  template <typename Find>
  Node whole(const Find& find);
  Node find_step(Node node, uint8_t byte);
  Stack push(StateId then, Stack below);
  bool before(Reading a, Reading b) const;
  Stack adopt_stack(const ByteAutomaton& other, Stack stack);
  void reach(StateId state, Stack stack);
  bool see(Reading reading);  // false if it was seen already
  void forget_seen();
  void follow_calls(const Grammar::State& state, Stack stack);
  // Returns the node of the readings in reached_ and of all that they reach without a byte.
  Node close();

  std::shared_ptr<const Grammar> grammar_;
  size_t classes_;
  std::vector<Frame> frames_;  // frames_[0] stands for the empty stack
  std::unordered_map<uint64_t, Stack> stack_of_;
  std::unordered_map<Readings, Node, HashOfReadings> node_of_;
  std::vector<NodeData> nodes_;
  std::vector<Node> next_;  // [nodes][classes]
  size_t held_ = 0;
  // Scratch of close().
  std::vector<Reading> reached_;
  std::vector<Reading> seen_;  // hash table with open addressing, at most half full; kNone: free
};

}  // namespace kvick::text
