#include "engine/sampling/sampling.h"

#include <cmath>

namespace kvick::engine {
namespace {

using base::Done;
using base::fail;

bool is_share(float x) { return x >= 0 && x <= 1; }

base::Status<> check_tokens(const Sampling& s, uint32_t vocab) {
  const auto known = [&](Token token) {
    return token >= 0 && static_cast<uint32_t>(token) < vocab;
  };
  for (const auto& [token, bias] : s.logit_bias) {
    if (!known(token))
      return fail("logit bias for token {}, but the vocabulary ends at {}", token, vocab - 1);
    if (std::isnan(bias)) return fail("logit bias of token {} is not a number", token);
  }
  for (const std::vector<Token>& word : s.bad_words) {
    if (word.empty()) return fail("a bad word is empty");
    for (const Token token : word)
      if (!known(token))
        return fail("a bad word has token {}, but the vocabulary ends at {}", token, vocab - 1);
  }
  return Done{};
}

base::Status<> check_dry(const DrySampling& dry) {
  if (!(dry.multiplier >= 0 && dry.multiplier <= 100))
    return fail("the DRY multiplier is {}, outside [0, 100]", dry.multiplier);
  if (!(dry.base >= 1 && dry.base <= 100))
    return fail("the DRY base is {}, outside [1, 100]", dry.base);
  if (dry.allowed_length < 1)
    return fail("the length that DRY allows is 0, but must be at least 1");
  for (const std::string& breaker : dry.breakers)
    if (breaker.empty()) return fail("a DRY sequence breaker is empty; leave it out");
  return Done{};
}

base::Status<> check_mirostat(const MirostatSampling& mirostat) {
  if (mirostat.version > 2)
    return fail("Mirostat is {}, but must be 0 (off), 1 or 2", mirostat.version);
  if (!(mirostat.tau >= 0 && mirostat.tau <= 100))
    return fail("Mirostat's tau is {}, outside [0, 100]", mirostat.tau);
  if (!(mirostat.eta >= 0 && mirostat.eta <= 1))
    return fail("Mirostat's eta is {}, outside [0, 1]", mirostat.eta);
  return Done{};
}

}  // namespace

std::vector<std::string> default_dry_breakers() { return {"\n", ":", "\"", "*"}; }

base::Status<> check(const Sampling& s, uint32_t vocab) {
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature))
    return fail("temperature is {}, but must be 0 (greedy) or more", s.temperature);
  if (!(s.top_p > 0 && s.top_p <= 1)) return fail("top-p is {}, outside (0, 1]", s.top_p);
  if (!is_share(s.min_p)) return fail("min-p is {}, outside [0, 1]", s.min_p);
  if (!(s.typical_p > 0 && s.typical_p <= 1))
    return fail("typical-p is {}, outside (0, 1]", s.typical_p);
  if (!(s.top_n_sigma >= 0) || !std::isfinite(s.top_n_sigma))
    return fail("top-n-sigma is {}, but must be 0 (off) or more", s.top_n_sigma);
  if (!(s.dynatemp_range >= 0) || !std::isfinite(s.dynatemp_range))
    return fail("the range of the temperature is {}, but must be 0 (off) or more",
                s.dynatemp_range);
  if (!(s.dynatemp_exponent > 0) || !std::isfinite(s.dynatemp_exponent))
    return fail("the exponent of the temperature is {}, but must be above 0", s.dynatemp_exponent);
  if (!is_share(s.xtc.probability) || !is_share(s.xtc.threshold))
    return fail("XTC's probability and threshold are {} and {}, but must be in [0, 1]",
                s.xtc.probability, s.xtc.threshold);
  // Beyond these limits a logit may become infinite, which may leave a constrained answer without
  // any possible token.
  if (!(s.repetition_penalty >= 0.01F && s.repetition_penalty <= 100))
    return fail("repetition penalty is {}, outside [0.01, 100] (1 is off)", s.repetition_penalty);
  for (const float penalty : {s.presence_penalty, s.frequency_penalty})
    if (!(std::abs(penalty) <= 100))
      return fail("presence and frequency penalties are at most 100 in size, not {}", penalty);
  KVICK_TRY_VOID(check_dry(s.dry));
  KVICK_TRY_VOID(check_mirostat(s.mirostat));
  return check_tokens(s, vocab);
}

}  // namespace kvick::engine
