#include "engine/speculation/match_index.h"

#include <algorithm>

namespace kvick::engine {
namespace {

using kv::Token;

constexpr Token kBreak = -1;  // between texts: no token of any vocabulary

uint64_t pair_of(Token before, Token last) {
  return uint64_t{static_cast<uint32_t>(before)} << 32 | static_cast<uint32_t>(last);
}
uint64_t single_of(Token last) { return static_cast<uint32_t>(last); }

}  // namespace

uint64_t MatchIndex::pair_at(uint64_t place) const { return pair_of(at(place - 1), at(place)); }

// at: the place's index in the ring.
void MatchIndex::Chain::add(uint64_t key, uint64_t place, uint64_t at) {
  const auto [known, added] = newest.try_emplace(key, place);
  if (added) return;
  earlier[at] = known->second + 1;
  known->second = place;
}

void MatchIndex::Chain::forget(uint64_t key, uint64_t place) {
  const auto known = newest.find(key);
  if (known != newest.end() && known->second == place) newest.erase(known);
}

void MatchIndex::begin() {
  if (count_ > 0) add(kBreak);
}

void MatchIndex::add(Token token) {
  const uint64_t place = count_, ring = place & (capacity_ - 1);
  if (count_ < capacity_) {
    // Sizes come from the count, so that all agree again after one of these calls has thrown.
    tokens_.resize(count_ + 1);
    pairs_.earlier.resize(count_ + 1);
    singles_.earlier.resize(count_ + 1);
    tokens_[ring] = token;
  } else {
    // The oldest token is dropped: forget it, and the pair that it begins.
    pairs_.forget(pair_at(first() + 1), first() + 1);
    singles_.forget(single_of(at(first())), first());
    tokens_[ring] = token;
    pairs_.earlier[ring] = singles_.earlier[ring] = 0;
  }
  ++count_;
  if (token == kBreak) return;
  singles_.add(single_of(token), place, ring);
  if (place > first() && at(place - 1) != kBreak) pairs_.add(pair_at(place), place, ring);
}

// Returns how many tokens up to and including `place` equal the text's last ones.
uint32_t MatchIndex::length_at(std::span<const Token> text, uint64_t place) const {
  uint32_t length = 0;
  while (length < kMostLength && length < text.size() && place >= first() + length &&
         at(place - length) == text[text.size() - 1 - length])
    ++length;
  return length;
}

void MatchIndex::walk(const Chain& chain, uint64_t key, std::span<const Token> text,
                      std::vector<Place>& places) const {
  const auto newest = chain.newest.find(key);
  uint64_t next = newest == chain.newest.end() ? 0 : newest->second + 1;
  for (uint32_t i = 0; i < kWalk && next > first(); ++i) {
    const uint64_t place = next - 1;
    next = chain.earlier[place & (capacity_ - 1)];
    const bool last = place + 1 == count_ || at(place + 1) == kBreak;
    const uint32_t length = length_at(text, place);
    if (length >= chain.tokens && !last) places.push_back({place, length});
  }
}

void MatchIndex::find(std::span<const Token> text, std::vector<Match>& out) const {
  out.clear();
  if (text.empty()) return;
  std::vector<Place> places;
  if (text.size() > 1) walk(pairs_, pair_of(text[text.size() - 2], text.back()), text, places);
  if (places.empty()) walk(singles_, single_of(text.back()), text, places);
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.length > b.length; });
  for (const Place& place : places) {
    // The tokens are returned as one span, so they end where the ring's memory wraps.
    const uint64_t begin = (place.at + 1) & (capacity_ - 1);
    const uint64_t end = std::min({begin + kMostNext, begin + (count_ - place.at - 1), capacity_});
    auto tokens = std::span(tokens_).subspan(begin, end - begin);
    tokens = tokens.first(
        static_cast<size_t>(std::find(tokens.begin(), tokens.end(), kBreak) - tokens.begin()));
    out.push_back({tokens, place.length});
  }
}

}  // namespace kvick::engine
