#pragma once
// The sampling options of a request.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "kv/contract/kv.h"

namespace kvick::engine {

using Token = kv::Token;

// DRY, "don't repeat yourself" (p-e-w 2024, text-generation-webui pull request 5677; names,
// defaults and breakers as in llama.cpp): see dry.h.
struct DrySampling {
  float multiplier = 0;  // 0: off
  float base = 1.75F;
  uint32_t allowed_length = 2;
  uint32_t window = UINT32_MAX;       // last tokens of prompt and answer that count; 0: off
  std::vector<std::string> breakers;  // texts that no repetition extends past
  bool any() const { return multiplier > 0 && window > 0; }
};
// Returns llama.cpp's breakers, for requests that give none.
std::vector<std::string> default_dry_breakers();

// XTC, "exclude top choices" (p-e-w 2024, text-generation-webui pull request 6335): with
// probability `probability`, excludes all tokens that are at least `threshold` likely, except the
// unlikeliest of them.
struct XtcSampling {
  float probability = 0;  // 0: off
  float threshold = 0.1F;
};

// Mirostat (Basu et al. 2021, arXiv:2007.14966): see mirostat.h.
struct MirostatSampling {
  uint32_t version = 0;  // 0: off; 1: the paper's algorithm 1; 2: its algorithm 2, as in llama.cpp
  float tau = 5;         // target surprise, in bits per token
  float eta = 0.1F;      // learning rate
};

// Applied in this order: bias, bad words, penalties, DRY, top-n-sigma, temperature, top-k,
// typical-p, top-p, min-p, XTC. Probabilities are those among the tokens still kept, after the
// temperature. Temperature 0 is greedy: it ignores everything after DRY. Mirostat replaces
// everything after DRY except the temperature, as in llama.cpp.
struct Sampling {
  float temperature = 0.8F;
  uint32_t top_k = 40;           // 0: all
  float top_p = 0.95F;           // smallest set of tokens with at least this probability; 1: all
  float min_p = 0;               // least probability, as a share of the likeliest token's; 0: all
  float repetition_penalty = 1;  // of tokens of prompt and answer (Keskar et al. 2019); 1: none
  float presence_penalty = 0;    // of tokens of the answer; 0: none
  float frequency_penalty = 0;   // of tokens of the answer, per occurrence; 0: none
  uint32_t penalty_window = 64;  // how many of the last tokens are penalised; 0: none
  uint64_t seed = 0;
  std::map<Token, float> logit_bias;
  // Keeps the tokens whose surprise is nearest to the expected one, until they have this
  // probability (Meister et al. 2022, arXiv:2202.00666); 1: all.
  float typical_p = 1;
  // Keeps tokens whose logit is at most this many standard deviations below the highest (Tang et
  // al. 2024, arXiv:2411.07641); 0: all.
  float top_n_sigma = 0;
  // The temperature follows the entropy of the probabilities (llama.cpp's dynamic temperature):
  // from temperature - range for one certain token to temperature + range for equal probabilities.
  // 0: off.
  float dynatemp_range = 0;
  float dynatemp_exponent = 1;
  DrySampling dry;
  XtcSampling xtc;
  MirostatSampling mirostat;
  // The last token of a word is never chosen after the others. No word may be empty.
  std::vector<std::vector<Token>> bad_words;
};

// Errors name a value outside its range, or a token outside the vocabulary.
base::Status<> check(const Sampling& sampling, uint32_t vocab);

}  // namespace kvick::engine
