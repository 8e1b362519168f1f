#include "server/ollama/options.h"

#include <algorithm>

namespace kvick::server {
namespace {

using base::Done;
using engine::Sampling;

engine::GivenSampling given_in(Fields& options) {
  const auto has = [&](std::string_view name) { return options.find(name) != nullptr; };
  return {.temperature = has("temperature"),
          .top_k = has("top_k"),
          .top_p = has("top_p"),
          .min_p = has("min_p"),
          .repetition_penalty = has("repeat_penalty")};
}

ApiStatus read_sampling(Fields& options, Sampling& sampling) {
  KVICK_TRY(const double temperature, options.get_number("temperature", 0.8, {0, 100}));
  KVICK_TRY(const int64_t top_k, options.get_int("top_k", 40, {-1, INT32_MAX}));
  KVICK_TRY(const double top_p, options.get_number("top_p", 0.9, {0, 1}));
  KVICK_TRY(const double min_p, options.get_number("min_p", 0, {0, 1}));
  sampling.temperature = static_cast<float>(temperature);
  sampling.top_k = static_cast<uint32_t>(std::max<int64_t>(top_k, 0));
  sampling.top_p = static_cast<float>(top_p);
  sampling.min_p = static_cast<float>(min_p);
  if (sampling.top_p == 0)
    return bad_field(options.path("top_p"), "{} must be above 0; 1 keeps all tokens",
                     options.path("top_p"));
  return Done{};
}

ApiStatus read_penalties(Fields& options, Sampling& sampling) {
  KVICK_TRY(const double repeat, options.get_number("repeat_penalty", 1.1, {0.01, 100}));
  KVICK_TRY(const double presence, options.get_number("presence_penalty", 0, {-2, 2}));
  KVICK_TRY(const double frequency, options.get_number("frequency_penalty", 0, {-2, 2}));
  KVICK_TRY(const int64_t window, options.get_int("repeat_last_n", 64, {-1, INT32_MAX}));
  sampling.repetition_penalty = static_cast<float>(repeat);
  sampling.presence_penalty = static_cast<float>(presence);
  sampling.frequency_penalty = static_cast<float>(frequency);
  // -1: the whole text.
  sampling.penalty_window = window < 0 ? UINT32_MAX : static_cast<uint32_t>(window);
  return Done{};
}

ApiStatus read_stop(Fields& options, GenerationRequest& generation) {
  const Json* stop = options.find("stop");
  if (stop == nullptr) return Done{};
  const std::string path = options.path("stop");
  const Json list = stop->is_array() ? *stop : Json::array({*stop});
  if (list.size() > kMostStops)
    return bad_field(path, "{} has {} strings; at most {} are taken", path, list.size(),
                     kMostStops);
  for (const Json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      return bad_field(path, "{} must be a string or a list of strings, none of them empty", path);
    if (text.get_ref<const std::string&>().size() > kMostStopBytes)
      return bad_field(path, "a string of {} is longer than {} bytes", path, kMostStopBytes);
    generation.stop.push_back(text.get<std::string>());
  }
  return Done{};
}

// Accepts values that have no effect.
void ignore_defaults(Fields& options, uint32_t context) {
  options.ignore_value("num_ctx", context);
  options.ignore_value("num_keep", 0);
  options.ignore_value("mirostat", 0);
  options.ignore_value("tfs_z", 1);
  options.ignore_value("typical_p", 1);
}

}  // namespace

ApiStatus read_ollama_options(Fields& request, uint32_t context, GenerationRequest& generation) {
  const Json* given = request.find("options");
  const Json none = Json::object();
  KVICK_TRY(Fields options, request.inside(given != nullptr ? *given : none, "options"));
  generation.sampling = Sampling();
  generation.given = given_in(options);
  KVICK_TRY_VOID(read_sampling(options, generation.sampling));
  KVICK_TRY_VOID(read_penalties(options, generation.sampling));
  KVICK_TRY_VOID(read_stop(options, generation));
  // -1 and -2 mean "until the context is full" in Ollama, and so does 0 here.
  KVICK_TRY(const int64_t most, options.get_int("num_predict", -1, {-2, UINT32_MAX}));
  generation.max_tokens = static_cast<uint32_t>(std::max<int64_t>(most, 0));
  KVICK_TRY(const int64_t seed, options.get_int("seed", -1, {INT64_MIN, INT64_MAX}));
  if (seed != -1) generation.seed = static_cast<uint64_t>(seed);  // -1: a random seed
  ignore_defaults(options, context);
  return options.check_rest();
}

}  // namespace kvick::server
