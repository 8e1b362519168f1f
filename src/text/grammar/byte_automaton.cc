#include "text/grammar/byte_automaton.h"

#include <algorithm>
#include <tuple>

namespace kvick::text {
namespace {

// What a text that is complete leads to has a mark of its own among the readings, so that the same
// readings before and behind the end are two states.
constexpr uint64_t kCompleteMark = UINT64_MAX;

// In the table of what was seen.
constexpr uint64_t kNone = UINT64_MAX;

// Where a number is in the table or, if it is not, where it belongs.
size_t free_slot(const std::vector<uint64_t>& table, uint64_t number) {
  size_t at = number * 0x9E3779B97F4A7C15U >> 32;
  for (;; ++at) {
    const uint64_t there = table[at &= table.size() - 1];
    if (there == number || there == kNone) return at;
  }
}

// Room for one more, so that nothing is thrown between a table's entry and what it names.
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

// A state, or after an exception no trace of it: clones share the automaton and may go on.
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

// Which readings are dropped when there are too many follows from this order, so a stack's number,
// which depends on what was read before, decides nothing (else a mask might allow what another
// automaton then refuses).
bool ByteAutomaton::before(Reading a, Reading b) const {
  const auto key = [this](Reading reading) {
    return std::tuple(reading >> 32, frames_[static_cast<Stack>(reading)].order, reading);
  };
  return key(a) < key(b);
}

// A standard set's allocations were most of what a new state cost.
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

// In the reverse order, so that each is found where it was put.
void ByteAutomaton::forget_seen() {
  for (auto one = reached_.rbegin(); one != reached_.rend(); ++one)
    seen_[free_slot(seen_, *one)] = kNone;
}

// Only where the end is within the levels that are left: every reading can be completed.
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
    // Characters beyond ASCII are a call.
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
    // First, or kMostReadings readings would leave no place for it.
    if (data.complete) reach(grammar_->rules[0].end, 0);
    for (const Reading reading : *data.readings)
      if (reading != kCompleteMark)
        reach(static_cast<StateId>(reading >> 32), adopt_stack(other, static_cast<Stack>(reading)));
    return close();
  });
}

}  // namespace kvick::text
