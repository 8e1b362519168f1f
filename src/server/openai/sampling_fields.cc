#include "server/openai/sampling_fields.h"

#include <charconv>
#include <cmath>
#include <limits>

namespace kvick::server {
namespace {

using base::Done;
using engine::Sampling;

// Reads a number; `value` stays if the field is not given.
ApiStatus read_float(Fields& fields, std::string_view name, Range<double> range, float& value) {
  KVICK_TRY(const double number, fields.get_number(name, double{value}, range));
  value = static_cast<float>(number);
  return Done{};
}

// Reads a number of last tokens; llama-server's -1 stands for all.
ApiStatus read_last(Fields& fields, std::string_view name, uint32_t& value) {
  if (fields.find(name) == nullptr) return Done{};
  KVICK_TRY(const int64_t last, fields.get_int(name, -1, {-1, UINT32_MAX}));
  value = last < 0 ? UINT32_MAX : static_cast<uint32_t>(last);
  return Done{};
}

// Reads a list of strings. name: the field's name in errors.
ApiResult<std::vector<std::string>> read_texts(const Json& value, const std::string& name,
                                               size_t most, size_t most_bytes) {
  if (!value.is_array()) return bad_field(name, "{} must be a list of strings", name);
  if (value.size() > most)
    return bad_field(name, "{} has {} strings; at most {} are taken", name, value.size(), most);
  std::vector<std::string> texts;
  for (const Json& text : value) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      return bad_field(name, "{} must be a list of strings, none of them empty", name);
    if (text.get_ref<const std::string&>().size() > most_bytes)
      return bad_field(name, "a string of {} is longer than {} bytes", name, most_bytes);
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

// Reads repetition_penalty (vLLM, SGLang) or repeat_penalty (llama-server).
ApiStatus read_repetition(Fields& fields, Sampling& sampling) {
  constexpr Range<double> kRange = {0.01, 100};
  const bool named = fields.find("repetition_penalty") != nullptr;
  KVICK_TRY_VOID(read_float(fields, "repetition_penalty", kRange, sampling.repetition_penalty));
  float repeat = sampling.repetition_penalty;
  KVICK_TRY_VOID(read_float(fields, "repeat_penalty", kRange, repeat));
  if (named && repeat != sampling.repetition_penalty)
    return bad_field("repeat_penalty", "repetition_penalty and repeat_penalty differ; give one");
  sampling.repetition_penalty = repeat;
  return Done{};
}

ApiStatus read_penalties(Fields& fields, Sampling& sampling) {
  KVICK_TRY_VOID(read_float(fields, "presence_penalty", {-2, 2}, sampling.presence_penalty));
  KVICK_TRY_VOID(read_float(fields, "frequency_penalty", {-2, 2}, sampling.frequency_penalty));
  KVICK_TRY_VOID(read_repetition(fields, sampling));
  sampling.penalty_window = UINT32_MAX;  // OpenAI's penalties count over the whole text
  return read_last(fields, "repeat_last_n", sampling.penalty_window);
}

ApiStatus wrong_bias(engine::Token token) {
  return bad_field("logit_bias", "logit_bias of token {} must be a number from -100 to 100", token);
}

bool is_bias(const Json& value) {
  return value.is_number() && std::abs(value.get<double>()) <= 100;
}

// Reads llama-server's form: pairs of a token id and its bias, where false excludes the token.
ApiStatus read_bias_pairs(const Json& list, Sampling& sampling) {
  for (const Json& pair : list) {
    const bool of_token =
        pair.is_array() && pair.size() == 2 && pair[0].is_number_unsigned() &&
        pair[0].get<uint64_t>() <= uint64_t{std::numeric_limits<engine::Token>::max()};
    if (!of_token)
      return bad_field("logit_bias",
                       "logit_bias as a list must have pairs of a token id and a number, such as "
                       "[15043, -1.5]; texts are not taken");
    const auto token = pair[0].get<engine::Token>();
    if (pair[1] != false && !is_bias(pair[1])) return wrong_bias(token);
    sampling.logit_bias[token] = pair[1] == false ? -100 : pair[1].get<float>();
  }
  return Done{};
}

ApiStatus read_bias(Fields& fields, Sampling& sampling) {
  const Json* bias = fields.find("logit_bias");
  if (bias == nullptr) return Done{};
  if (!bias->is_object() && !bias->is_array())
    return bad_field("logit_bias", "logit_bias must be an object of token ids and numbers");
  if (bias->size() > kMostBiases)
    return bad_field("logit_bias", "logit_bias has {} tokens; at most {} are taken", bias->size(),
                     kMostBiases);
  if (bias->is_array()) return read_bias_pairs(*bias, sampling);
  for (const auto& [key, value] : bias->get_ref<const Json::object_t&>()) {
    engine::Token token = 0;
    const auto read = std::from_chars(key.data(), key.data() + key.size(), token);
    if (read.ec != std::errc() || read.ptr != key.data() + key.size() || token < 0)
      return bad_field("logit_bias", "logit_bias names {}, which is no token id", in_quotes(key));
    if (!is_bias(value)) return wrong_bias(token);
    sampling.logit_bias[token] = value.get<float>();
  }
  return Done{};
}

ApiStatus read_dry(Fields& fields, engine::DrySampling& dry) {
  KVICK_TRY_VOID(read_float(fields, "dry_multiplier", {0, 100}, dry.multiplier));
  KVICK_TRY_VOID(read_float(fields, "dry_base", {1, 100}, dry.base));
  KVICK_TRY(const int64_t allowed,
            fields.get_int("dry_allowed_length", dry.allowed_length, {1, UINT32_MAX}));
  dry.allowed_length = static_cast<uint32_t>(allowed);
  KVICK_TRY_VOID(read_last(fields, "dry_penalty_last_n", dry.window));
  constexpr const char* kBreakers = "dry_sequence_breakers";
  const Json* breakers = fields.find(kBreakers);
  if (breakers != nullptr) {
    KVICK_TRY(dry.breakers, read_texts(*breakers, kBreakers, kMostBreakers, kMostBreakerBytes));
  }
  if (dry.any() && breakers == nullptr) dry.breakers = engine::default_dry_breakers();
  return Done{};
}

ApiStatus read_mirostat(Fields& fields, engine::MirostatSampling& mirostat) {
  KVICK_TRY(const int64_t version, fields.get_int("mirostat", 0, {0, 2}));
  mirostat.version = static_cast<uint32_t>(version);
  KVICK_TRY_VOID(read_float(fields, "mirostat_tau", {0, 100}, mirostat.tau));
  return read_float(fields, "mirostat_eta", {0, 1}, mirostat.eta);
}

// Reads the options that drop unlikely tokens; llama-server's -1 disables top_n_sigma.
ApiStatus read_kept(Fields& fields, Sampling& sampling) {
  KVICK_TRY(const int64_t top_k, fields.get_int("top_k", 0, {-1, INT32_MAX}));
  sampling.top_k = static_cast<uint32_t>(std::max<int64_t>(top_k, 0));  // vLLM's -1: all tokens
  sampling.top_p = 1;
  for (const auto& [name, value] :
       {std::pair("top_p", &sampling.top_p), std::pair("typical_p", &sampling.typical_p)}) {
    KVICK_TRY_VOID(read_float(fields, name, {0, 1}, *value));
    if (*value == 0) return bad_field(name, "{} must be above 0; 1 keeps all tokens", name);
  }
  KVICK_TRY_VOID(read_float(fields, "min_p", {0, 1}, sampling.min_p));
  KVICK_TRY_VOID(read_float(fields, "top_n_sigma", {-1, 1000}, sampling.top_n_sigma));
  sampling.top_n_sigma = std::max(sampling.top_n_sigma, 0.0F);
  KVICK_TRY_VOID(read_float(fields, "xtc_probability", {0, 1}, sampling.xtc.probability));
  return read_float(fields, "xtc_threshold", {0, 1}, sampling.xtc.threshold);
}

engine::GivenSampling given_in(Fields& fields) {
  const auto has = [&](std::string_view name) { return fields.find(name) != nullptr; };
  return {.temperature = has("temperature"),
          .top_k = has("top_k"),
          .top_p = has("top_p"),
          .min_p = has("min_p"),
          .repetition_penalty = has("repetition_penalty") || has("repeat_penalty")};
}

ApiStatus read_temperature(Fields& fields, Sampling& sampling) {
  sampling.temperature = 1;
  KVICK_TRY_VOID(read_float(fields, "temperature", {0, 100}, sampling.temperature));
  KVICK_TRY_VOID(read_float(fields, "dynatemp_range", {0, 100}, sampling.dynatemp_range));
  return read_float(fields, "dynatemp_exponent", {0.01, 100}, sampling.dynatemp_exponent);
}

}  // namespace

ApiStatus read_sampling(Fields& fields, GenerationRequest& request) {
  Sampling& sampling = request.sampling;
  request.given = given_in(fields);
  KVICK_TRY_VOID(read_temperature(fields, sampling));
  KVICK_TRY_VOID(read_kept(fields, sampling));
  if (fields.find("seed") != nullptr) {
    KVICK_TRY(const int64_t seed, fields.get_int("seed", 0, {INT64_MIN, INT64_MAX}));
    // -1: a random seed, as for vLLM and llama-server. Their clients send it by default.
    if (seed != -1) request.seed = static_cast<uint64_t>(seed);
  }
  KVICK_TRY_VOID(read_penalties(fields, sampling));
  KVICK_TRY_VOID(read_dry(fields, sampling.dry));
  KVICK_TRY_VOID(read_mirostat(fields, sampling.mirostat));
  const std::string name = "bad_words";
  if (const Json* words = fields.find("bad_words")) {
    KVICK_TRY(request.bad_words, read_texts(*words, name, kMostBadWords, kMostStopBytes));
  }
  return read_bias(fields, sampling);
}

}  // namespace kvick::server
