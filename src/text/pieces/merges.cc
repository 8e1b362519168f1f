#include "text/pieces/merges.h"

#include <algorithm>
#include <array>
#include <queue>

#include "base/check.h"

namespace kvick::text {
namespace {

// Up to this many symbols, scanning for the lowest rank is faster than a heap; nearly all words are
// shorter.
constexpr size_t kShort = 48;
constexpr uint32_t kNever = UINT32_MAX;

}  // namespace

MergeTable::MergeTable(size_t most_pairs) {
  size_t slots = 16;
  while (slots < 2 * most_pairs) slots *= 2;
  slots_.resize(slots);
}

size_t MergeTable::slot_of(uint64_t key) const {
  size_t i = (key ^ key >> 29) * 0x9E3779B97F4A7C15u >> 20;
  for (;; ++i) {
    i &= slots_.size() - 1;
    if (slots_[i].key == key || slots_[i].key == kFree) return i;
  }
}

const MergeTable::Pair* MergeTable::find(Token left, Token right) const {
  if (left < 0 || right < 0) return nullptr;
  const Pair& pair = slots_[slot_of(key_of(left, right))];
  return pair.key == kFree ? nullptr : &pair;
}

void MergeTable::add(Token left, Token right, uint32_t rank, Token result) {
  KVICK_CHECK(left >= 0 && right >= 0 && result >= 0 && rank < kNever,
              "merge {} {} of rank {} to {}", left, right, rank, result);
  Pair& pair = slots_[slot_of(key_of(left, right))];
  if (pair.key == kFree) pair = {key_of(left, right), rank, result};
}

size_t MergeTable::merge(std::span<Token> symbols) const {
  if (symbols.size() < 2) return symbols.size();
  return symbols.size() <= kShort ? merge_short(symbols) : merge_long(symbols);
}

size_t MergeTable::merge_short(std::span<Token> symbols) const {
  std::array<uint32_t, kShort> ranks;  // ranks[i]: rank of the pair that starts at symbol i
  std::array<Token, kShort> results;
  size_t count = symbols.size();
  const auto look_up = [&](size_t i) {
    const Pair* pair = i + 1 < count ? find(symbols[i], symbols[i + 1]) : nullptr;
    ranks[i] = pair ? pair->rank : kNever;
    results[i] = pair ? pair->result : 0;
  };
  for (size_t i = 0; i < count; ++i) look_up(i);
  for (;;) {
    const size_t best = std::min_element(ranks.begin(), ranks.begin() + count) - ranks.begin();
    if (ranks[best] == kNever) return count;
    symbols[best] = results[best];
    const auto close_gap = [&](auto* values) {
      std::copy(values + best + 2, values + count, values + best + 1);
    };
    close_gap(symbols.data());
    close_gap(ranks.data());
    close_gap(results.data());
    --count;
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
}

// A heap of ranks and places. Entries of pairs that no longer exist are recognised by their rank,
// which differs from the present one, and skipped.
size_t MergeTable::merge_long(std::span<Token> symbols) const {
  const size_t count = symbols.size();
  constexpr uint32_t kEnd = UINT32_MAX;
  KVICK_CHECK(count < kEnd, "{} symbols in one piece", count);
  std::vector<uint32_t> next(count), previous(count);
  std::vector<uint64_t> first;
  const auto candidate = [&](uint32_t i) -> uint64_t {
    const Pair* pair = next[i] == kEnd ? nullptr : find(symbols[i], symbols[next[i]]);
    return pair ? static_cast<uint64_t>(pair->rank) << 32 | i : UINT64_MAX;
  };
  for (uint32_t i = 0; i < count; ++i) {
    next[i] = i + 1 < count ? i + 1 : kEnd;
    previous[i] = i > 0 ? i - 1 : kEnd;
    if (const uint64_t found = candidate(i); found != UINT64_MAX) first.push_back(found);
  }
  std::priority_queue queue(std::greater<>{}, std::move(first));
  constexpr Token kGone = -2;
  while (!queue.empty()) {
    const uint64_t best = queue.top();
    queue.pop();
    const auto i = static_cast<uint32_t>(best);
    if (symbols[i] == kGone || candidate(i) != best) continue;
    const uint32_t gone = next[i];
    symbols[i] = find(symbols[i], symbols[gone])->result;
    symbols[gone] = kGone;
    next[i] = next[gone];
    if (next[i] != kEnd) previous[next[i]] = i;
    for (const uint32_t changed : {i, previous[i]}) {
      const uint64_t found = changed == kEnd ? UINT64_MAX : candidate(changed);
      if (found != UINT64_MAX) queue.push(found);
    }
  }
  return std::remove(symbols.begin(), symbols.end(), kGone) - symbols.begin();
}

}  // namespace kvick::text
