#include "server/infill/infill_request.h"

namespace kvick::server {
namespace {

using base::Done;

ApiStatus read_files(Fields& fields, CompletionRequest& request) {
  const Json* list = fields.find("input_extra");
  if (list == nullptr) return Done{};
  if (!list->is_array())
    return bad_field("input_extra", "input_extra must be a list of {{\"filename\", \"text\"}}");
  if (list->size() > kMostInfillFiles)
    return bad_field("input_extra", "input_extra has {} files; at most {} are taken", list->size(),
                     kMostInfillFiles);
  for (const Json& one : *list) {
    KVICK_TRY(Fields file,
              fields.inside(one, fmt::format("input_extra[{}]", request.files.size())));
    KVICK_TRY(std::string name, file.get_string("filename", "snippet"));
    KVICK_TRY(std::string text, file.get_string("text", ""));
    KVICK_TRY_VOID(file.check_rest());
    request.files.push_back({std::move(name), std::move(text)});
  }
  return Done{};
}

ApiStatus read_texts(Fields& fields, CompletionRequest& request) {
  if (fields.find("input_prefix") == nullptr && fields.find("input_suffix") == nullptr)
    return bad_field("input_prefix",
                     "give input_prefix and input_suffix: the texts before and "
                     "behind what is to be filled in");
  KVICK_TRY(std::string before, fields.get_string("input_prefix", ""));
  KVICK_TRY(std::string after, fields.get_string("input_suffix", ""));
  KVICK_TRY(const std::string prompt, fields.get_string("prompt", ""));
  request.prompts.emplace_back(before + prompt);
  request.suffix = std::move(after);
  request.suffix_field = "input_suffix";
  return Done{};
}

// Reads the fields for the answer's tokens. llama-server takes logprobs where n_probs is missing.
ApiStatus read_reports(Fields& fields, CompletionRequest& request) {
  constexpr Range<int64_t> kRange = {0, kMostTopTokens};
  KVICK_TRY(const int64_t logprobs, fields.get_int("logprobs", 0, kRange));
  KVICK_TRY(const int64_t probs, fields.get_int("n_probs", logprobs, kRange));
  KVICK_TRY(const bool ids, fields.get_bool("return_tokens", false));
  if (request.beams > 0 && probs > 0)
    return bad_field("n_probs", "n_probs does not go with use_beam_search");
  if (request.beams > 0 && ids)
    return bad_field("return_tokens", "return_tokens does not go with use_beam_search");
  if (probs > 0) request.logprobs = static_cast<uint32_t>(probs);
  request.token_ids |= ids;
  return Done{};
}

Json with_one_token(Json body) {
  body["n_predict"] = 1;
  return body;
}

}  // namespace

bool asks_for_no_text(const Json& body) {
  return body.is_object() && body.contains("n_predict") && body["n_predict"] == 0;
}

ApiResult<CompletionRequest> parse_infill(const Json& body, UnknownFields& unknown) {
  if (asks_for_no_text(body)) return parse_infill(with_one_token(body), unknown);
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  CompletionRequest request;
  KVICK_TRY_VOID(read_generation(fields, 0, request));
  if (request.choices != 1) return bad_field("n", "n must be 1: /infill gives one answer");
  KVICK_TRY_VOID(read_texts(fields, request));
  KVICK_TRY_VOID(read_files(fields, request));
  KVICK_TRY_VOID(read_reports(fields, request));
  KVICK_TRY_VOID(fields.check_rest());
  return request;
}

ApiResult<CompletionRequest> parse_llama_completion(const Json& body, UnknownFields& unknown) {
  if (asks_for_no_text(body)) return parse_llama_completion(with_one_token(body), unknown);
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  CompletionRequest request;
  KVICK_TRY_VOID(read_generation(fields, 0, request));
  if (request.choices != 1) return bad_field("n", "n must be 1: /completion gives one answer");
  KVICK_TRY(request.prompts, read_prompts(fields, "prompt", 1, "prompts"));
  KVICK_TRY_VOID(read_reports(fields, request));
  KVICK_TRY_VOID(fields.check_rest());
  return request;
}

}  // namespace kvick::server
