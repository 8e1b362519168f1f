#include "kv/forget/forget_rule.h"

#include <algorithm>

#include "kv/forget/expected_queries.h"

namespace kvick::kv {

uint32_t ForgetRule::held(uint32_t tokens) const {
  if (noted == Noted::kDocument) {
    if (tokens < document) return tokens;
    const uint32_t kept = std::max(selection.budget(document), selection.sinks + 1);
    return std::min(kept, document) + (tokens - document);
  }
  const uint32_t given_up_at = tokens / drop * drop;
  const uint32_t most = std::max(selection.budget(given_up_at), selection.sinks + 1);
  const uint32_t least = std::min(most, selection.sinks + selection.recent + 1);
  const uint32_t left = std::max(most - std::min(most, drop - 1), least);
  return std::min(tokens, left + (tokens - given_up_at));
}

uint32_t ForgetRule::most_held(uint32_t from, uint32_t to) const {
  const uint32_t given_up_at = to / drop * drop;
  return std::max(held(to), given_up_at > from ? held(given_up_at - 1) : 0);
}

bool ForgetRule::notes(uint32_t tokens) const {
  const uint32_t until = (tokens + drop - 1) / drop * drop - tokens;
  return noted != Noted::kNothing && until < history;
}

uint32_t ForgetRule::apart(uint32_t fresh) const {
  return window > 0 ? std::min(window, fresh) : 1;
}

uint64_t ForgetRule::score_bytes(const Shape& shape, uint64_t held, uint32_t fresh) const {
  const uint64_t added = uint64_t{shape.layers} * shape.kv_heads * fresh;
  if (noted == Noted::kPredicted) return added * sizeof(float);
  if (expects()) return StepQueries::bytes_of(shape, expected, fresh);
  return observes() ? (held + added) * apart(fresh) * sizeof(float) : 0;
}

uint32_t ForgetRule::recent(uint32_t tokens) const {
  if (noted == Noted::kDocument) return tokens - std::min(tokens, document);
  const uint32_t held = this->held(tokens), others = held - std::min(held, selection.sinks);
  if (noted == Noted::kNothing) return others;
  return std::min(others, half_recent ? (held + 1) / 2 : selection.recent);
}

uint32_t ForgetRule::spared(uint32_t tokens) const {
  const uint32_t held = this->held(tokens), always = std::min(held, selection.sinks);
  return static_cast<uint32_t>(uint64_t{held - always - recent(tokens)} * safeguard / 1000000);
}

base::Status<> read_recent(const Spec& spec, const Option& option, ForgetRule& rule) {
  const auto recent = spec.options.find(std::string(option.name));
  rule.half_recent = recent == spec.options.end() || recent->second == "half";
  if (!rule.half_recent) {
    KVICK_TRY(rule.selection.recent, read_rows(spec, option));
  }
  return base::Done{};
}

base::Status<> read_heads(const Spec& spec, const Option& heads, const Option& safeguard,
                          ForgetRule& rule) {
  constexpr uint64_t kMillion = 1000000;
  KVICK_TRY(const size_t ada, read_choice(spec, heads, {"even", "ada"}));
  KVICK_TRY(const uint64_t sure, read_decimal(spec, safeguard, 0, kMillion));
  if (ada == 0 && spec.options.contains("safeguard"))
    return base::fail(
        "{}: safeguard= is for heads=ada, where KV heads share rows: add heads=ada, or leave "
        "safeguard= out",
        spec.name);
  if (ada == 0) return base::Done{};
  rule.shared = Shared::kLayer;
  rule.safeguard = static_cast<uint32_t>(sure);
  return base::Done{};
}

}  // namespace kvick::kv
