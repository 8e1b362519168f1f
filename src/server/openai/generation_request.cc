#include "server/openai/generation_request.h"

#include <algorithm>

#include "server/openai/form_fields.h"
#include "server/openai/kv_transfer.h"
#include "server/openai/sampling_fields.h"
#include "server/request/token_list.h"

namespace kvick::server {
namespace {

using base::Done;

constexpr int64_t kMostTokens = UINT32_MAX;

ApiStatus read_stop(Fields& fields, GenerationRequest& request) {
  const Json* stop = fields.find("stop");
  if (stop == nullptr) return Done{};
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  if (list.size() > kMostStops)
    return bad_field("stop", "stop has {} strings; at most {} are taken", list.size(), kMostStops);
  for (const Json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      return bad_field("stop", "stop must be a string or a list of strings, none of them empty");
    if (text.get_ref<const std::string&>().size() > kMostStopBytes)
      return bad_field("stop", "a stop string is longer than {} bytes", kMostStopBytes);
    request.stop.push_back(text.get<std::string>());
  }
  return Done{};
}

ApiStatus read_stop_tokens(Fields& fields, GenerationRequest& request) {
  const Json* list = fields.find("stop_token_ids");
  if (list == nullptr) return Done{};
  if (!list->is_array())
    return bad_field("stop_token_ids", "stop_token_ids must be a list of token ids");
  if (list->size() > kMostStopTokens)
    return bad_field("stop_token_ids", "stop_token_ids has {} tokens; at most {} are taken",
                     list->size(), kMostStopTokens);
  KVICK_TRY(request.stop_tokens, read_tokens(*list, "stop_token_ids"));
  return Done{};
}

// Reads vLLM's field. The plan checks the ids against the vocabulary, which bounds their number
// too.
ApiStatus read_allowed_tokens(Fields& fields, GenerationRequest& request) {
  const std::string name = "allowed_token_ids";
  const Json* list = fields.find("allowed_token_ids");
  if (list == nullptr) return Done{};
  if (!list->is_array() || list->empty())
    return bad_field(name, "{} must be a list of token ids, at least one", name);
  KVICK_TRY(request.allowed_tokens, read_tokens(*list, name));
  return Done{};
}

// Reads vLLM's fields for what the answer's text includes.
ApiStatus read_text(Fields& fields, GenerationRequest& request) {
  KVICK_TRY(const bool skips, fields.get_bool("skip_special_tokens", true));
  KVICK_TRY(request.with_stop, fields.get_bool("include_stop_str_in_output", false));
  KVICK_TRY(request.token_ids, fields.get_bool("return_token_ids", false));
  request.special_text = !skips;
  return Done{};
}

ApiStatus read_stream(Fields& fields, GenerationRequest& request) {
  KVICK_TRY(request.stream, fields.get_bool("stream", false));
  const Json* value = fields.find("stream_options");
  if (value == nullptr) return Done{};
  if (!request.stream)
    return bad_field("stream_options", "stream_options is only for stream: true");
  KVICK_TRY(Fields options, fields.inside(*value, "stream_options"));
  KVICK_TRY(request.include_usage, options.get_bool("include_usage", false));
  options.ignore({"include_obfuscation"});  // padding against eavesdroppers who measure packets
  return options.check_rest();
}

// Reads n and vLLM's fields of beam search: use_beam_search searches with best_of beams, and the
// best n are the answer.
ApiStatus read_choices(Fields& fields, GenerationRequest& request) {
  KVICK_TRY(const int64_t n, fields.get_int("n", 1, {1, kMostChoices}));
  KVICK_TRY(const int64_t best_of, fields.get_int("best_of", n, {1, kMostChoices}));
  KVICK_TRY(const bool beam_search, fields.get_bool("use_beam_search", false));
  KVICK_TRY(const double penalty, fields.get_number("length_penalty", 1, {-10, 10}));
  request.choices = static_cast<uint32_t>(n);
  request.length_penalty = static_cast<float>(penalty);
  if (best_of < n) return bad_field("best_of", "best_of is {}, less than n, {}", best_of, n);
  if (beam_search) request.beams = static_cast<uint32_t>(best_of);
  if (!beam_search && best_of != n)
    return bad_field("best_of", "best_of above n needs use_beam_search: true");
  if (!beam_search && penalty != 1)
    return bad_field("length_penalty", "length_penalty needs use_beam_search: true");
  return Done{};
}

// Reads OpenAI's old and new names and llama-server's. -1 (llama-server): until the context is
// full.
ApiStatus read_max_tokens(Fields& fields, uint32_t fallback, GenerationRequest& request) {
  std::string_view first;
  request.max_tokens = fallback;
  for (const std::string_view name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    if (fields.find(name) == nullptr) continue;
    KVICK_TRY(const int64_t given, fields.get_int(name, 0, {-1, kMostTokens}));
    if (given == 0)
      return bad_field(std::string(name), "{} must be at least 1, or -1 for as many as fit", name);
    const auto most = given == -1 ? 0 : static_cast<uint32_t>(given);
    if (!first.empty() && most != request.max_tokens)
      return bad_field(std::string(first), "{} and {} differ; give one", first, name);
    request.max_tokens = most;
    first = name;
  }
  return Done{};
}

ApiStatus read_min_tokens(Fields& fields, GenerationRequest& request) {
  KVICK_TRY(const int64_t least, fields.get_int("min_tokens", 0, {0, kMostTokens}));
  request.min_tokens = static_cast<uint32_t>(least);
  if (request.max_tokens != 0 && request.min_tokens > request.max_tokens)
    return bad_field("min_tokens", "min_tokens is {}, more than max_tokens, {}", least,
                     request.max_tokens);
  return Done{};
}

// Refuses fields by their names in the request; the service would refuse them by its own names.
ApiStatus check_beams(const GenerationRequest& request) {
  const auto refused = [](std::string name) {
    return bad_field(name, "{} does not go with use_beam_search", name);
  };
  if (request.beams == 0) return Done{};
  if (request.min_tokens > 0) return refused("min_tokens");
  if (!request.stop_tokens.empty()) return refused("stop_token_ids");
  if (request.with_stop) return refused("include_stop_str_in_output");
  if (request.token_ids) return refused("return_token_ids");
  if (!request.bad_words.empty()) return refused("bad_words");
  if (!request.allowed_tokens.empty()) return refused("allowed_token_ids");
  return Done{};
}

ApiStatus read_kv(Fields& fields, GenerationRequest& request) {
  const Json* value = fields.find("kv");
  if (value == nullptr) return Done{};
  KVICK_TRY(Fields kv, fields.inside(*value, "kv"));
  KVICK_TRY(const std::string strategy, kv.get_string("strategy", ""));
  KVICK_TRY(const std::string type, kv.get_string("type", ""));
  KVICK_TRY(const std::string select, kv.get_string("select", ""));
  KVICK_TRY_VOID(kv.check_rest());
  auto options = engine::parse_kv_options(strategy, type, "", select);
  if (!options.ok()) return bad_field("kv", "{}", options.error().message);
  // A client must not make the server open files.
  const auto names_file = [](const kv::Spec& spec) {
    return spec.options.contains("file") || spec.options.contains("dir");
  };
  const bool named_measurement = options->automatic && !options->automatic->path.empty();
  if (named_measurement || !options->ranges_path.empty() || names_file(options->spec) ||
      names_file(options->select))
    return bad_field("kv",
                     "kv names a file, which only the server's own --kv, --kv-type and "
                     "--kv-select can");
  request.kv = *std::move(options);
  return Done{};
}

ApiStatus read_spec(Fields& fields, GenerationRequest& request) {
  if (fields.find("spec") == nullptr) return Done{};
  KVICK_TRY(const std::string text, fields.get_string("spec", ""));
  auto options = engine::parse_spec_options(text);
  if (!options.ok()) return bad_field("spec", "{}", options.error().message);
  request.spec = *std::move(options);
  return Done{};
}

ApiStatus read_prompt_logprobs(Fields& fields, GenerationRequest& request) {
  const std::string name = "prompt_logprobs";
  if (fields.find("prompt_logprobs") == nullptr) return Done{};
  KVICK_TRY(const int64_t top, fields.get_int("prompt_logprobs", 0, {0, kMostTopTokens}));
  if (request.stream)
    return bad_field(
        name,
        "{} does not go with stream: true; ask without a stream, or in /v1/completions "
        "for echo and logprobs",
        name);
  if (request.beams > 0) return bad_field(name, "{} does not go with use_beam_search", name);
  request.prompt_logprobs = static_cast<uint32_t>(top);
  return Done{};
}

// Keeps the last tokens of a prompt, as vLLM does where a request does not choose a side.
ApiStatus read_truncation(Fields& fields, GenerationRequest& request) {
  KVICK_TRY(const std::string side, fields.get_string("truncation_side", "left"));
  if (side != "left")
    return bad_field("truncation_side",
                     "truncation_side is {}; only \"left\" is known, which keeps the last tokens",
                     in_quotes(side));
  if (fields.find("truncate_prompt_tokens") == nullptr) return Done{};
  KVICK_TRY(const int64_t most, fields.get_int("truncate_prompt_tokens", 0, {-1, kMostTokens}));
  if (most == 0)
    return bad_field("truncate_prompt_tokens",
                     "truncate_prompt_tokens must be at least 1, or -1 for as many as fit");
  request.max_prompt_tokens = static_cast<uint32_t>(std::max<int64_t>(most, 0));
  return Done{};
}

}  // namespace

ApiStatus read_generation(Fields& fields, uint32_t default_tokens, GenerationRequest& request) {
  KVICK_TRY(request.model, fields.get_string("model", ""));
  KVICK_TRY_VOID(read_stream(fields, request));
  KVICK_TRY_VOID(read_choices(fields, request));
  KVICK_TRY_VOID(read_max_tokens(fields, default_tokens, request));
  KVICK_TRY_VOID(read_min_tokens(fields, request));
  KVICK_TRY_VOID(read_stop(fields, request));
  KVICK_TRY_VOID(read_stop_tokens(fields, request));
  KVICK_TRY_VOID(read_allowed_tokens(fields, request));
  KVICK_TRY_VOID(read_text(fields, request));
  KVICK_TRY_VOID(read_sampling(fields, request));
  KVICK_TRY_VOID(check_beams(request));
  KVICK_TRY_VOID(read_kv(fields, request));
  KVICK_TRY_VOID(read_spec(fields, request));
  KVICK_TRY_VOID(read_form_fields(fields, request));
  KVICK_TRY(request.reuse, fields.get_bool("cache_prompt", true));
  KVICK_TRY(request.handover, read_handover(fields));
  KVICK_TRY(request.lora, read_lora(fields));
  KVICK_TRY(request.ignore_end, fields.get_bool("ignore_eos", false));
  if (fields.find("stop_loops") != nullptr) {
    KVICK_TRY(request.stop_loops, fields.get_bool("stop_loops", false));
  }
  KVICK_TRY(const int64_t priority, fields.get_int("priority", 0, {INT32_MIN, INT32_MAX}));
  KVICK_TRY(request.salt, fields.get_string("cache_salt", ""));
  request.priority = static_cast<int32_t>(priority);
  fields.ignore({"user", "metadata", "store", "service_tier", "safety_identifier",
                 "prompt_cache_key", "prompt_cache_retention", "request_id", "rid"});
  fields.ignore_defaults();
  return Done{};
}

ApiStatus read_prompt_fields(Fields& fields, GenerationRequest& request) {
  KVICK_TRY_VOID(read_prompt_logprobs(fields, request));
  return read_truncation(fields, request);
}

}  // namespace kvick::server
