#include "engine/sampling/dry.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace kvick::engine {
namespace {

constexpr Token kBreak = -1;

}  // namespace

Dry::Dry(DrySampling settings, const text::Tokenizer* tokenizer)
    : settings_(std::move(settings)), tokenizer_(tokenizer) {
  KVICK_CHECK(tokenizer != nullptr || settings_.breakers.empty(),
              "{} breakers, and no tokenizer to find them", settings_.breakers.size());
  for (const std::string& breaker : settings_.breakers)
    longest_breaker_ = std::max(longest_breaker_, breaker.size());
}

void Dry::add(Token token) {
  if (tokenizer_ != nullptr && tokenizer_->is_control(token)) return add_break();
  // Old tokens are dropped a whole window at a time, so that adding one takes constant time.
  const size_t window = settings_.window;
  if (text_.size() >= 2 * window)
    text_.erase(text_.begin(), text_.end() - static_cast<ptrdiff_t>(window));
  text_.push_back(token);
  since_ = ends_breaker(token) ? 0 : since_ + 1;
}

void Dry::add_break() {
  text_.push_back(kBreak);
  tail_.clear();
  since_ = 0;
}

bool Dry::has_breaker(std::string_view text) const {
  return std::any_of(settings_.breakers.begin(), settings_.breakers.end(),
                     [&](const std::string& b) { return text.find(b) != std::string_view::npos; });
}

// Returns whether a breaker ends within this token. It may have begun in the tail, which is shorter
// than the longest breaker. The search of each breaker begins late enough to skip those that ended
// in an earlier token.
bool Dry::ends_breaker(Token token) {
  if (longest_breaker_ == 0) return false;
  const size_t before = tail_.size();
  tail_ += tokenizer_->piece(token, true);
  const bool ends = std::any_of(
      settings_.breakers.begin(), settings_.breakers.end(), [&](const std::string& breaker) {
        const size_t first = before - std::min(before, breaker.size() - 1);
        return tail_.find(breaker, first) != std::string::npos;
      });
  tail_.erase(0, tail_.size() - std::min(tail_.size(), longest_breaker_ - 1));
  return ends;
}

// Sets repeated_. same_[i] is how many tokens the text without its last i tokens and the whole text
// have in common at their ends. The Z algorithm (Gusfield 1997, Algorithms on Strings, chapter 1)
// on the reversed text finds them in linear time, however the text repeats itself.
void Dry::find_repetitions(size_t window) {
  const auto from_end = [&](size_t i) { return text_[text_.size() - 1 - i]; };
  repeated_.clear();
  same_.assign(window, 0);
  size_t left = 0, right = 0;  // [left, right) of the reversed text equals its beginning
  for (size_t i = 1; i < window; ++i) {
    size_t same = i < right ? std::min<size_t>(right - i, same_[i - left]) : 0;
    while (i + same < window && from_end(same) == from_end(i + same)) ++same;
    same_[i] = static_cast<uint32_t>(same);
    if (i + same > right) left = i, right = i + same;
    const uint32_t length = std::min(same_[i], since_);
    const Token next = from_end(i - 1);
    if (length < settings_.allowed_length || next == kBreak) continue;
    uint32_t& longest = repeated_[next];
    longest = std::max(longest, length);
  }
}

float Dry::penalty(uint32_t length) const {
  constexpr double kMost = 1e30;  // keeps the penalty within float
  const double factor = std::pow(double{settings_.base}, length - settings_.allowed_length);
  return static_cast<float>(std::min(double{settings_.multiplier} * factor, kMost));
}

void Dry::apply(std::span<float> logits) {
  const size_t window = std::min<size_t>(text_.size(), settings_.window);
  if (since_ < settings_.allowed_length || window <= settings_.allowed_length) return;
  find_repetitions(window);
  for (const auto& [token, length] : repeated_) {
    if (longest_breaker_ > 0 && has_breaker(tokenizer_->piece(token, true))) continue;
    logits[static_cast<size_t>(token)] -= penalty(length);
  }
}

}  // namespace kvick::engine
