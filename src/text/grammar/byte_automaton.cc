#include "text/grammar/byte_automaton.h"

#include <algorithm>
#include <tuple>

namespace kvick::text {
namespace {

// A node whose text is complete has this mark among its readings. So two nodes with the same
// readings are distinct if only one of them is complete.
constexpr uint64_t kCompleteMark = UINT64_MAX;

// A free slot of seen_.
constexpr uint64_t kNone = UINT64_MAX;

// Returns the slot of a number or, if the table does not hold it, the free slot where it belongs.
size_t free_slot(const std::vector<uint64_t>& table, uint64_t number) {
  size_t at = number * 0x9E3779B97F4A7C15U >> 32;
  for (;; ++at) {
    const uint64_t there = table[at &= table.size() - 1];
    if (there == number || there == kNone) return at;
  }
}

// Reserves room for one more element, so that no exception separates a table's entry from the
// element that it refers to.
template <typename T>
void make_room(std::vector<T>& all) {
  if (all.size() == all.capacity()) all.reserve(2 * all.size() + 16);
}

uint64_t mixed(uint64_t hash, uint64_t number) {
  hash = (hash ^ number) * 0x9E3779B97F4A7C15U;
  return hash ^ hash >> 29;
}

constexpr uint64_t pair_of(uint32_t high, uint32_t low) { return uint64_t{high} << 32 | low; }

}  // namespace

size_t ByteAutomaton::HashOfReadings::operator()(const Readings& readings) const {
  uint64_t hash = readings.size();
  for (const Reading reading : readings) hash = mixed(hash, reading);
  return hash;
}

ByteAutomaton::ByteAutomaton(std::shared_ptr<const Grammar> grammar)
    : grammar_(std::move(grammar)), classes_(grammar_->classes.size()), frames_(1) {}

ByteAutomaton::Node ByteAutomaton::start() {
  return whole([&] {
    reach(grammar_->rules[0].start, 0);
    return close();
  });
}

// Returns find(). After an exception it clears the scratch, because clones share the automaton and
// may go on.
template <typename Find>
ByteAutomaton::Node ByteAutomaton::whole(const Find& find) {
  try {
    return find();
  } catch (...) {
    reached_.clear();
    seen_.clear();
    throw;
  }
}

ByteAutomaton::Stack ByteAutomaton::push(StateId then, Stack below) {
  make_room(frames_);
  const auto [at, is_new] =
      stack_of_.try_emplace(pair_of(then, below), static_cast<Stack>(frames_.size()));
  if (is_new) {
    const Frame& under = frames_[below];
    frames_.push_back({then, below, under.depth + 1, mixed(under.order, uint64_t{then} + 1)});
    held_ += 5;
  }
  return at->second;
}

// The order in which readings are dropped when there are too many. It must not depend on a stack's
// number, which depends on what the automaton read before: otherwise a mask might allow a token
// that another automaton then refuses.
bool ByteAutomaton::before(Reading a, Reading b) const {
  const auto key = [this](Reading reading) {
    return std::tuple(reading >> 32, frames_[static_cast<Stack>(reading)].order, reading);
  };
  return key(a) < key(b);
}

// A hash table of its own: the allocations of a standard set were most of the cost of a new state.
bool ByteAutomaton::see(Reading reading) {
  if (seen_.size() < 2 * (reached_.size() + 1)) {
    seen_.assign(std::max<size_t>(64, 2 * seen_.size()), kNone);
    for (const Reading one : reached_) seen_[free_slot(seen_, one)] = one;
  }
  Reading& slot = seen_[free_slot(seen_, reading)];
  if (slot == reading) return false;
  slot = reading;
  return true;
}

// Removes in reverse order of insertion, so that each number is found in its slot.
void ByteAutomaton::forget_seen() {
  for (auto one = reached_.rbegin(); one != reached_.rend(); ++one)
    seen_[free_slot(seen_, *one)] = kNone;
}

// Ignores states whose rule's end needs more levels than are left: every reading can be completed.
void ByteAutomaton::reach(StateId state, Stack stack) {
  if (frames_[stack].depth + grammar_->states[state].height > Grammar::kMostDepth) return;
  const Reading reading = pair_of(state, stack);
  if (see(reading)) reached_.push_back(reading);
}

void ByteAutomaton::follow_calls(const Grammar::State& state, Stack stack) {
  for (const Grammar::Call& call : state.calls) {
    const StateId start = grammar_->rules[call.rule].start;
    if (grammar_->is_tail(call)) {
      reach(start, stack);
    } else if (frames_[stack].depth + grammar_->states[call.then].height <= Grammar::kMostDepth &&
               frames_[stack].depth + 1U + grammar_->states[start].height <= Grammar::kMostDepth) {
      reach(start, push(call.then, stack));
    }
  }
}

ByteAutomaton::Node ByteAutomaton::close() {
  Readings readings;
  bool complete = false;
  uint32_t room = 0;
  for (size_t i = 0; i < reached_.size() && readings.size() < kMostReadings; ++i) {
    const auto id = static_cast<StateId>(reached_[i] >> 32);
    const auto stack = static_cast<Stack>(reached_[i]);
    const Grammar::State& state = grammar_->states[id];
    if (!state.bytes.empty()) readings.push_back(reached_[i]);
    // Characters beyond ASCII are a call, which needs a level.
    if (frames_[stack].depth < Grammar::kMostDepth) room = std::max(room, state.room);
    for (const StateId to : state.skips) reach(to, stack);
    follow_calls(state, stack);
    if (!state.end) continue;
    complete |= stack == 0;
    if (stack != 0) reach(frames_[stack].then, frames_[stack].below);
  }
  forget_seen();
  reached_.clear();
  if (readings.empty() && !complete) return kDead;
  std::sort(readings.begin(), readings.end(),
            [this](Reading a, Reading b) { return before(a, b); });
  if (complete) readings.push_back(kCompleteMark);
  make_room(nodes_);
  next_.resize((nodes_.size() + 1) * classes_, kUnknown);
  const auto [at, is_new] =
      node_of_.try_emplace(std::move(readings), static_cast<Node>(nodes_.size()));
  if (is_new) {
    nodes_.push_back({&at->first, complete, room});
    held_ += at->first.size() + 8;
  }
  return at->second;
}

ByteAutomaton::Node ByteAutomaton::find_step(Node node, uint8_t byte) {
  const Node to = whole([&] {
    for (const Reading reading : *nodes_[static_cast<size_t>(node)].readings) {
      if (reading == kCompleteMark) continue;
      for (const Grammar::Bytes& edge : grammar_->states[reading >> 32].bytes)
        if (edge.first <= byte && byte <= edge.last) reach(edge.to, static_cast<Stack>(reading));
    }
    return close();
  });
  next_[static_cast<size_t>(node) * classes_ + grammar_->class_of[byte]] = to;
  return to;
}

ByteAutomaton::Stack ByteAutomaton::adopt_stack(const ByteAutomaton& other, Stack stack) {
  std::vector<StateId> frames;
  for (; stack != 0; stack = other.frames_[stack].below)
    frames.push_back(other.frames_[stack].then);
  Stack own = 0;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) own = push(*frame, own);
  return own;
}

ByteAutomaton::Node ByteAutomaton::adopt(const ByteAutomaton& other, Node node) {
  const NodeData& data = other.nodes_[static_cast<size_t>(node)];
  return whole([&] {
    // The end of the whole goes first: after kMostReadings readings, close() would drop it.
    if (data.complete) reach(grammar_->rules[0].end, 0);
    for (const Reading reading : *data.readings)
      if (reading != kCompleteMark)
        reach(static_cast<StateId>(reading >> 32), adopt_stack(other, static_cast<Stack>(reading)));
    return close();
  });
}

}  // namespace kvick::text
