#include "engine/reuse/known_texts.h"

#include <algorithm>

#include "base/check.h"

namespace kvick::engine {
namespace {

// Hash of a window of tokens, as a polynomial, so that the window can move by one token in constant
// time (Rabin and Karp 1987).
class RollingHash {
 public:
  RollingHash(uint64_t salt, std::span<const Token> window) : salt_(salt) {
    for (size_t i = 0; i < window.size(); ++i) {
      sum_ = sum_ * kFactor + digit(window[i]);
      if (i > 0) highest_ *= kFactor;
    }
  }
  void move(Token out, Token in) { sum_ = (sum_ - digit(out) * highest_) * kFactor + digit(in); }
  uint64_t value() const { return mixed(sum_ ^ mixed(salt_)); }

 private:
  static constexpr uint64_t kFactor = 0x9E3779B97F4A7C15;
  static uint64_t digit(Token token) { return static_cast<uint32_t>(token) + uint64_t{1}; }
  // The finaliser of MurmurHash3.
  static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 33) * 0xFF51AFD7ED558CCD;
    x = (x ^ x >> 33) * 0xC4CEB9FE1A85EC53;
    return x ^ x >> 33;
  }
  uint64_t salt_, sum_ = 0, highest_ = 1;
};

// Returns the length of the common prefix of two texts, in tokens.
uint32_t common(std::span<const Token> a, std::span<const Token> b) {
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<uint32_t>(differ.first - a.begin());
}

}  // namespace

void KnownTexts::add(uint64_t salt, std::span<const Token> text) {
  if (text.size() < least_ || text.size() > most_) return;
  const auto kept = std::make_shared<const std::vector<Token>>(text.begin(), text.end());
  texts_.push_back({kept, salt});
  tokens_ += kept->size();
  for (uint32_t at = 0; at + block() <= kept->size(); at += block())
    places_[RollingHash(salt, text.subspan(at, block())).value()] = {kept, salt, at};
  while (tokens_ > most_) drop_oldest();
}

void KnownTexts::drop_oldest() {
  const Kept oldest = texts_.front();
  for (uint32_t at = 0; at + block() <= oldest.text->size(); at += block()) {
    const auto place = places_.find(
        RollingHash(oldest.salt, std::span(*oldest.text).subspan(at, block())).value());
    if (place != places_.end() && place->second.text == oldest.text) places_.erase(place);
  }
  tokens_ -= oldest.text->size();
  texts_.pop_front();
}

std::vector<KnownRun> KnownTexts::runs(uint64_t salt, std::span<const Token> prompt, uint32_t first,
                                       uint32_t end) const {
  KVICK_CHECK(first <= end && end <= prompt.size(), "tokens {} to {} of {}", first, end,
              prompt.size());
  std::vector<KnownRun> found;
  if (end - first < least_) return found;
  RollingHash hash(salt, prompt.subspan(first, block()));
  for (uint32_t at = first, free = first;;) {
    const auto place = places_.find(hash.value());
    if (place != places_.end() && place->second.salt == salt && at >= free) {
      const auto& [text, ignored, from] = place->second;
      const std::span<const Token> ahead = prompt.subspan(at, end - at);
      const uint32_t after = common(ahead, std::span(*text).subspan(from));
      uint32_t before = 0;
      while (before < std::min(at - free, from) &&
             prompt[at - before - 1] == (*text)[from - before - 1])
        ++before;
      if (after >= block() && before + after >= least_) {
        found.push_back({at - before, from - before, before + after, text});
        free = at + after;
      }
    }
    if (at + block() >= end) return found;
    hash.move(prompt[at], prompt[at + block()]);
    ++at;
  }
}

}  // namespace kvick::engine
