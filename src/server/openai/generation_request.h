#pragma once
// What completions and chats have in common: how to generate.

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

// Most of what one request may ask for; more is refused.
inline constexpr int64_t kMostChoices = 64;  // of one prompt
inline constexpr size_t kMostPrompts = 256;
inline constexpr size_t kMostStops = 16;
inline constexpr size_t kMostStopBytes = 1024;
inline constexpr size_t kMostStopTokens = 256;
inline constexpr int64_t kMostTopTokens = 20;
inline constexpr size_t kMostBiases = 1024;  // each costs time with every token
inline constexpr size_t kMostBadWords = 256;
inline constexpr size_t kMostBreakers = 32;  // of DRY
inline constexpr size_t kMostBreakerBytes = 64;

struct GenerationRequest {
  // As the body has it. Api::model_of has chosen the model by it before; here its type is checked,
  // and answers in Ollama's form repeat it.
  std::string model;
  bool stream = false, include_usage = false;
  uint32_t choices = 1;
  uint32_t beams = 0;  // as in engine::Job
  float length_penalty = 1;
  uint32_t min_tokens = 0;
  uint32_t max_tokens = 0;  // 0: until the model ends or the context is full
  std::vector<std::string> stop;
  std::vector<engine::Token> stop_tokens;
  bool with_stop = false;       // stop texts and stop tokens are part of the answer
  bool special_text = false;    // so are the names of control tokens
  bool token_ids = false;       // the answer has the ids of its tokens beside the text
  bool reuse = true;            // of cached rows
  engine::Sampling sampling;    // but for the seed and the bad words
  engine::GivenSampling given;  // what of that is the request's own
  std::vector<std::string> bad_words;
  std::optional<uint64_t> seed;
  std::optional<uint32_t> logprobs;  // report tokens, each with this many of the likeliest
  bool ignore_end = false;
  std::optional<bool> stop_loops;  // none: as the server's operator wants it
  int32_t priority = 0;
  std::string salt;
  std::optional<engine::KvOptions> kv;
  std::optional<engine::SpecOptions> spec;
  std::optional<engine::Handover> handover;
  std::optional<LoraScales> lora;
  Json response_format;                          // null: any text
  std::string format_field = "response_format";  // that it came from
};

// Reads them all but logprobs, whose form differs. default_tokens: max_tokens where it is not
// given.
ApiStatus read_generation(Fields& fields, uint32_t default_tokens, GenerationRequest& request);

}  // namespace kvick::server
