#include "lab/data/needle_text.h"

#include <algorithm>
#include <iterator>

namespace kvick::lab {
namespace {

constexpr const char* kColours[] = {"blue", "red", "green", "white", "black", "yellow"};
constexpr const char* kThings[] = {"house", "boat", "garden", "bridge", "tower", "mill"};
constexpr uint32_t kNumbers = 90000, kFirstNumber = 10000;  // with five digits
// The end of a sentence is searched in this many tokens before the wanted depth.
constexpr size_t kMostBack = 64;

// Returns where to insert the fact: after the last sentence end before `at`, else at `at`.
size_t behind_sentence(const text::Tokenizer& tokenizer, std::span<const engine::Token> text,
                       size_t at) {
  for (size_t i = at; i > 0 && i + kMostBack > at; --i)
    if (tokenizer.piece(text[i - 1], false).find_first_of(".\n") != std::string::npos) return i;
  return at;
}

}  // namespace

Needle needle_of(const text::Tokenizer& tokenizer, uint32_t seed) {
  std::mt19937 random(seed);
  const std::string colour = kColours[random() % std::size(kColours)];
  const std::string thing = kThings[random() % std::size(kThings)];
  const std::string question = fmt::format("\nThe secret number of the {} {} is", colour, thing);
  const std::string whole = fmt::format("{} {}", question, kFirstNumber + random() % kNumbers);
  Needle needle = {.fact = tokenizer.encode(whole + ".\n", false, false),
                   .question = tokenizer.encode(question, false, false),
                   .answer = tokenizer.encode(whole, false, false)};
  // Keep only the common prefix: in the whole text the question's last token may be another one.
  const auto [end, answer] = std::mismatch(needle.question.begin(), needle.question.end(),
                                           needle.answer.begin(), needle.answer.end());
  needle.question.erase(end, needle.question.end());
  needle.answer.erase(needle.answer.begin(), answer);
  return needle;
}

base::Result<std::vector<engine::Token>> plant(const text::Tokenizer& tokenizer,
                                               const Needle& needle,
                                               std::span<const engine::Token> haystack,
                                               const Planting& planting) {
  std::vector<engine::Token> text = tokenizer.encode("", true, false);  // begin-of-text tokens
  const size_t fixed =
      text.size() + needle.fact.size() + needle.question.size() + needle.answer.size();
  if (planting.length <= fixed)
    return base::fail(
        "a context of {} tokens has no room for the fact and its question, which are "
        "{}",
        planting.length, fixed);
  const size_t hay = planting.length - fixed;
  if (haystack.size() < hay)
    return base::fail("the text has {} tokens, and a context of {} needs {}: give a longer --file",
                      haystack.size(), planting.length, hay);
  const auto some = haystack.subspan(planting.from % (haystack.size() - hay + 1), hay);
  const auto wanted = static_cast<size_t>(planting.depth * static_cast<double>(hay));
  const size_t at = behind_sentence(tokenizer, some, std::min(wanted, hay));
  text.insert(text.end(), some.begin(), some.begin() + static_cast<ptrdiff_t>(at));
  text.insert(text.end(), needle.fact.begin(), needle.fact.end());
  text.insert(text.end(), some.begin() + static_cast<ptrdiff_t>(at), some.end());
  return text;
}

}  // namespace kvick::lab
