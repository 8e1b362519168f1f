#include "text/grammar/grammar_constraint.h"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <optional>

#include "text/grammar/byte_automaton.h"

namespace kvick::text {
namespace {

using Node = ByteAutomaton::Node;

// What clones share: the automaton with the states found so far, and their masks.
struct Found {
  explicit Found(const std::shared_ptr<const Grammar>& grammar) : automaton(grammar) {}
  ByteAutomaton automaton;
  struct Mask {
    std::shared_ptr<const TokenBits> bits;
    uint64_t used = 0;  // the value of `clock` at its last use
  };
  std::map<Node, Mask> masks;
  uint64_t clock = 0;
};

class Shared {
 public:
  // A mask has one bit per token: 128 masks of a vocabulary of 128 Ki tokens take about 2 MB.
  static constexpr size_t kMostMasks = 128;

  Shared(std::shared_ptr<const TokenTrie> tokens, Grammar grammar, uint64_t most_work)
      : tokens_(std::move(tokens)),
        most_work_(most_work),
        grammar_(std::make_shared<const Grammar>(std::move(grammar))),
        found_(std::make_shared<Found>(grammar_)) {}

  const TokenTrie& tokens() const { return *tokens_; }
  std::mutex& mutex() { return mutex_; }

  // Callers of the functions below hold the mutex.
  const std::shared_ptr<Found>& found() const { return found_; }
  // Moves a state to the newest automaton, which is replaced by a new one if it is full.
  void move_on(std::shared_ptr<Found>& from, Node& node) {
    if (found_->automaton.full()) found_ = std::make_shared<Found>(grammar_);
    if (from == found_) return;
    node = found_->automaton.adopt(from->automaton, node);
    from = found_;
  }
  std::shared_ptr<const TokenBits> mask(Found& found, Node node);

 private:
  bool walk(const ByteTrie& trie, ByteAutomaton& automaton, Node from, uint32_t longest,
            TokenBits& bits) const;

  const std::shared_ptr<const TokenTrie> tokens_;
  const uint64_t most_work_;
  const std::shared_ptr<const Grammar> grammar_;
  std::mutex mutex_;
  std::shared_ptr<Found> found_;
};

std::shared_ptr<const TokenBits> Shared::mask(Found& found, Node node) {
  Found::Mask& mask = found.masks[node];
  mask.used = ++found.clock;
  if (mask.bits != nullptr) return mask.bits;
  const bool plain = found.automaton.room(node) >= TokenTrie::kMostPlain;
  TokenBits bits = plain ? tokens_->plain() : TokenBits(tokens_->plain().size());
  // If long tokens take too much work they are left out: the answer can continue with shorter ones.
  const ByteTrie& trie = plain ? tokens_->not_plain() : tokens_->all();
  for (const uint32_t longest : {UINT32_MAX, 4U, 2U, 1U})
    if (walk(trie, found.automaton, node, longest, bits)) break;
  if (found.automaton.complete(node))
    for (size_t i = 0; i < bits.size(); ++i) bits[i] |= tokens_->ends()[i];
  mask.bits = std::make_shared<const TokenBits>(std::move(bits));
  const std::shared_ptr<const TokenBits> result = mask.bits;
  if (found.masks.size() > kMostMasks)
    found.masks.erase(std::min_element(
        found.masks.begin(), found.masks.end(),
        [](const auto& a, const auto& b) { return a.second.used < b.second.used; }));
  return result;
}

// Sets the bits of allowed tokens of at most `longest` bytes. Returns false if the work limit was
// reached before all tokens were examined; the bits set until then are right. A step costs the same
// work whether or not it is known already, so that a mask depends only on the text. Single bytes
// are always examined.
bool Shared::walk(const ByteTrie& trie, ByteAutomaton& automaton, Node from, uint32_t longest,
                  TokenBits& bits) const {
  std::vector<Node> behind(trie.longest + 1);  // behind[i]: the state after i bytes of a token
  behind[0] = from;
  // With a large vocabulary and an ambiguous schema, one walk may meet more states than an
  // automaton should hold. The walk then continues in an automaton of its own.
  std::optional<ByteAutomaton> own;
  ByteAutomaton* at = &automaton;
  uint64_t work = 0;
  for (uint32_t i = 0; i + 1 < trie.nodes.size();) {
    const ByteTrie::Node& node = trie.nodes[i];
    if (node.depth == 0 && at->full()) {
      ByteAutomaton next(grammar_);
      behind[0] = next.adopt(*at, behind[0]);
      own = std::move(next);
      at = &*own;
    }
    if (node.depth >= longest) {
      i = node.behind;
      continue;
    }
    work += at->readings(behind[node.depth]);
    if (work > most_work_ && longest > 1) return false;
    const Node to = at->step(behind[node.depth], node.byte);
    if (to == ByteAutomaton::kDead) {
      i = node.behind;
      continue;
    }
    behind[node.depth + 1U] = to;
    for (uint32_t t = node.first_token; t < trie.nodes[i + 1].first_token; ++t) {
      const auto token = static_cast<size_t>(trie.tokens[t]);
      bits[token / 64] |= uint64_t{1} << (token % 64);
    }
    ++i;
  }
  return true;
}

class GrammarConstraint final : public Constraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<Shared> shared)
      : shared_(std::move(shared)),
        found_(shared_->found()),
        node_(found_->automaton.start()),
        complete_(found_->automaton.complete(node_)) {}

  std::unique_ptr<Constraint> clone() const override {
    return std::make_unique<GrammarConstraint>(*this);
  }

  void mask(std::span<float> logits) override {
    KVICK_CHECK_EQ(logits.size(), shared_->tokens().vocab());
    const auto allowed = bits();
    for (size_t i = 0; i < logits.size(); i += 64) {
      const uint64_t word = (*allowed)[i / 64];
      if (word == UINT64_MAX) continue;
      const size_t end = std::min(logits.size(), i + 64);
      for (size_t token = i; token < end; ++token)
        if ((word >> (token - i) & 1) == 0) logits[token] = -std::numeric_limits<float>::infinity();
    }
  }

  void accept(int32_t token) override {
    KVICK_CHECK(!ended_, "token {} behind the end", token);
    if (shared_->tokens().ends_generation(token)) {
      KVICK_CHECK(complete_, "token {} ends an answer that is not whole", token);
      ended_ = true;
      return;
    }
    const std::string_view bytes = shared_->tokens().bytes_of(token);
    const std::lock_guard lock(shared_->mutex());
    KVICK_CHECK(!bytes.empty(), "token {} has no text", token);
    for (const char byte : bytes) {
      node_ = found_->automaton.step(node_, static_cast<uint8_t>(byte));
      KVICK_CHECK(node_ != ByteAutomaton::kDead, "token {} was masked", token);
    }
    complete_ = found_->automaton.complete(node_);
  }

  bool complete() const override { return complete_; }

 private:
  std::shared_ptr<const TokenBits> bits() {
    // After an end token only end tokens are allowed.
    if (ended_) return std::make_shared<const TokenBits>(shared_->tokens().ends());
    const std::lock_guard lock(shared_->mutex());
    shared_->move_on(found_, node_);
    return shared_->mask(*found_, node_);
  }

  std::shared_ptr<Shared> shared_;
  std::shared_ptr<Found> found_;
  Node node_;
  bool complete_;
  bool ended_ = false;
};

}  // namespace

std::shared_ptr<const Constraint> grammar_constraint(std::shared_ptr<const TokenTrie> tokens,
                                                     Grammar grammar, uint64_t most_work) {
  auto shared = std::make_shared<Shared>(std::move(tokens), std::move(grammar), most_work);
  return std::make_shared<GrammarConstraint>(std::move(shared));
}

}  // namespace kvick::text
