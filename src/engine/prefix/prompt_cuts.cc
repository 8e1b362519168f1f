#include "engine/prefix/prompt_cuts.h"

#include <algorithm>

namespace kvick::engine {
namespace {

// This many cuts at the end keep the least distance; before them each cut doubles the distance.
constexpr size_t kNearCuts = 4;

std::vector<uint32_t> places_of(std::span<const Token> prompt, Token token) {
  std::vector<uint32_t> places;
  for (uint32_t at = 1; at < prompt.size(); ++at)
    if (prompt[at] == token) places.push_back(at);
  return places;
}

std::vector<uint32_t> message_borders(std::span<const Token> prompt,
                                      std::optional<Token> turn_token,
                                      const text::Tokenizer& tokenizer) {
  std::vector<uint32_t> borders;
  if (turn_token) borders = places_of(prompt, *turn_token);
  if (!borders.empty() || prompt.empty()) return borders;
  const auto last = std::find_if(prompt.rbegin(), prompt.rend() - 1,
                                 [&](Token token) { return tokenizer.is_control(token); });
  if (last != prompt.rend() - 1) return places_of(prompt, *last);
  for (uint64_t at = kFirstPowerCut; at < prompt.size(); at *= 2)
    borders.push_back(static_cast<uint32_t>(at));
  borders.push_back(static_cast<uint32_t>(prompt.size() - 1));
  return borders;
}

// Returns cuts at borders, from `end` to `from`.
std::vector<uint32_t> spread(std::span<const uint32_t> borders, uint32_t from, uint32_t end) {
  std::vector<uint32_t> cuts;
  uint32_t distance = kLeastCutTokens, next = end + distance;
  for (auto border = borders.rbegin(); border != borders.rend(); ++border) {
    if (*border < from + kLeastCutTokens) break;
    if (*border > end || next - *border < distance) continue;
    cuts.push_back(next = *border);
    if (cuts.size() >= kNearCuts) distance *= 2;
  }
  return cuts;
}

}  // namespace

std::optional<Token> turn_token_of(const Engine& engine) {
  if (!engine.has_chat_template()) return std::nullopt;
  const nlohmann::ordered_json messages = {{{"role", "user"}, {"content", "a"}}};
  const auto with = engine.render_chat(messages, {}, ChatEnd::kNewTurn);
  const auto without = engine.render_chat(messages, {}, ChatEnd::kTurn);
  if (!with.ok() || !without.ok() || !with->starts_with(*without)) return std::nullopt;
  for (const Token token : engine.tokenizer().encode(with->substr(without->size()), false, true))
    if (engine.tokenizer().is_control(token)) return token;
  return std::nullopt;
}

std::vector<uint32_t> cuts_of(std::span<const Token> prompt, const KnownPrompt& known,
                              std::optional<Token> turn_token, const text::Tokenizer& tokenizer) {
  if (prompt.size() < 2) return {};
  const auto end = static_cast<uint32_t>(prompt.size() - 1);
  const std::vector<uint32_t> borders = message_borders(prompt, turn_token, tokenizer);
  std::vector<uint32_t> cuts = spread(borders, known.cached, end);
  // Adds a cut unless another is less than kLeastCutTokens before it or less than `after` after it.
  const auto add = [&](uint32_t at, uint32_t after) {
    if (at < known.cached + kLeastCutTokens || at > end) return;
    const bool saves = std::none_of(cuts.begin(), cuts.end(), [&](uint32_t cut) {
      return cut < at + after && at < cut + kLeastCutTokens;
    });
    if (saves) cuts.push_back(at);
  };
  // The first border is usually the end of the system prompt.
  const auto first = std::ranges::lower_bound(borders, kLeastCutTokens);
  if (first != borders.end()) add(*first, kLeastCutTokens);
  add(known.seen, 1);
  std::ranges::sort(cuts);
  return cuts;
}

}  // namespace kvick::engine
