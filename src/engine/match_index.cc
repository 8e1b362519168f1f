#include "engine/match_index.h"

#include <algorithm>

namespace kvick::engine {
namespace {

using kv::Token;

constexpr Token kBreak = -1;  // between texts: no token of any vocabulary

uint64_t key_of(Token before, Token last) {
  return uint64_t{static_cast<uint32_t>(before)} << 32 | static_cast<uint32_t>(last);
}

}  // namespace

uint64_t MatchIndex::key_at(uint64_t place) const { return key_of(at(place - 1), at(place)); }

void MatchIndex::begin() {
  if (count_ > 0) add(kBreak);
}

void MatchIndex::add(Token token) {
  const uint64_t place = count_;
  if (tokens_.size() < capacity_) {
    tokens_.push_back(token);
    earlier_.push_back(0);
  } else {
    // The token that goes begins a pair.
    const uint64_t end = first() + 1;
    const auto known = newest_.find(key_at(end));
    if (known != newest_.end() && known->second == end) newest_.erase(known);
    tokens_[place & (capacity_ - 1)] = token;
  }
  ++count_;
  uint64_t& earlier = earlier_[place & (capacity_ - 1)];
  earlier = 0;
  if (place == first() || token == kBreak || at(place - 1) == kBreak) return;
  const auto [known, added] = newest_.try_emplace(key_at(place), place);
  if (added) return;
  earlier = known->second + 1;
  known->second = place;
}

// Tokens up to `place`, it included, that the text ends with.
uint32_t MatchIndex::length_at(std::span<const Token> text, uint64_t place) const {
  uint32_t length = 0;
  while (length < kMostLength && length < text.size() && place >= first() + length &&
         at(place - length) == text[text.size() - 1 - length])
    ++length;
  return length;
}

void MatchIndex::find(std::span<const Token> text, size_t most, std::vector<Match>& out) const {
  out.clear();
  if (text.size() < kLeast) return;
  const auto newest = newest_.find(key_of(text[text.size() - 2], text.back()));
  if (newest == newest_.end()) return;
  struct Place {
    uint64_t at;
    uint32_t length;
  };
  std::vector<Place> places;
  uint64_t next = newest->second + 1;
  for (uint32_t i = 0; i < kWalk && next > first() + 1; ++i) {
    const uint64_t place = next - 1;
    next = earlier_[place & (capacity_ - 1)];
    if (const uint32_t length = length_at(text, place); length >= kLeast)
      places.push_back({place, length});
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.length > b.length; });
  for (const Place& place : places) {
    if (out.size() == most) return;
    // A ring's end is not its memory's end: what is behind the wrap is left out.
    const uint64_t begin = (place.at + 1) & (capacity_ - 1);
    const uint64_t end = std::min({begin + kMostNext, begin + (count_ - place.at - 1), capacity_});
    auto tokens = std::span(tokens_).subspan(begin % tokens_.size(), end - begin);
    tokens = tokens.first(
        static_cast<size_t>(std::find(tokens.begin(), tokens.end(), kBreak) - tokens.begin()));
    if (!tokens.empty()) out.push_back({tokens, place.length});
  }
}

}  // namespace kvick::engine
