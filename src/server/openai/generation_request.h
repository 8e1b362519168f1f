#pragma once
// The options of generation that completions and chats share.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/options/kv_options.h"
#include "engine/options/spec_options.h"
#include "engine/sampling/model_sampling.h"
#include "engine/serving/service.h"
#include "server/openai/lora_field.h"
#include "server/request/fields.h"

namespace kvick::server {

// Limits on one request; larger values are refused.
inline constexpr int64_t kMostChoices = 64;  // per prompt
inline constexpr size_t kMostPrompts = 256;
inline constexpr size_t kMostStops = 16;
inline constexpr size_t kMostStopBytes = 1024;
inline constexpr size_t kMostStopTokens = 256;
inline constexpr int64_t kMostTopTokens = 20;
inline constexpr size_t kMostBiases = 1024;  // each costs time at every token
inline constexpr size_t kMostBadWords = 256;
inline constexpr size_t kMostBreakers = 32;  // sequence breakers of DRY
inline constexpr size_t kMostBreakerBytes = 64;

struct GenerationRequest {
  // The body's value. Api::model_of has chosen the model by it already. It is kept because answers
  // in Ollama's form repeat it.
  std::string model;
  bool stream = false, include_usage = false;
  uint32_t choices = 1;
  uint32_t beams = 0;  // as in engine::Job
  float length_penalty = 1;
  uint32_t min_tokens = 0;
  // Most tokens of a prompt; of a longer one only the last are read (vLLM). 0: as many as fit.
  std::optional<uint32_t> max_prompt_tokens;
  uint32_t max_tokens = 0;  // 0: until the model ends or the context is full
  std::vector<std::string> stop;
  std::vector<engine::Token> stop_tokens;
  bool with_stop = false;       // the answer includes the stop text or stop token
  bool special_text = false;    // the answer includes the names of control tokens
  bool token_ids = false;       // the answer has the ids of its tokens beside the text
  bool reuse = true;            // may reuse cached rows
  engine::Sampling sampling;    // without the seed and the bad words
  engine::GivenSampling given;  // which of these the request sets itself
  std::vector<std::string> bad_words;
  std::vector<engine::Token> allowed_tokens;  // the only tokens of the answer; empty: all
  std::optional<uint64_t> seed;
  // Number of likeliest tokens to report with each token; none: report nothing.
  std::optional<uint32_t> logprobs;
  // The same for the tokens of the prompt, apart from the answer's (vLLM).
  std::optional<uint32_t> prompt_logprobs;
  bool ignore_end = false;
  std::optional<bool> stop_loops;  // none: the server's default
  int32_t priority = 0;
  std::string salt;
  std::optional<engine::KvOptions> kv;
  std::optional<engine::SpecOptions> spec;
  std::optional<engine::Handover> handover;
  std::optional<LoraScales> lora;
  Json response_format;                          // null: any text
  std::string format_field = "response_format";  // the name of the field that gave response_format
};

// Reads all fields except logprobs, whose form differs between the two. default_tokens: max_tokens
// if it is not given.
ApiStatus read_generation(Fields& fields, uint32_t default_tokens, GenerationRequest& request);

// Reads vLLM's fields for the prompt of a completion or chat: prompt_logprobs,
// truncate_prompt_tokens. Call it after read_generation().
ApiStatus read_prompt_fields(Fields& fields, GenerationRequest& request);

}  // namespace kvick::server
