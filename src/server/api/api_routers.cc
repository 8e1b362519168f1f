// The routes that describe the server: for routers (vLLM's and the SGLang gateway), and for clients
// of llama-server.

#include <algorithm>

#include "server/api/route.h"
#include "server/infill/infill_request.h"
#include "server/ollama/ollama_format.h"
#include "server/ops/vllm_metrics.h"

namespace kvick::server {
namespace {

// Returns the default sampling options of POST /completion, under llama-server's names.
ApiResult<Json> default_sampling(const engine::ModelSampling& model) {
  UnknownFields unknown(true);
  const Json body = {{"prompt", "x"}};
  KVICK_TRY(CompletionRequest request, parse_llama_completion(body, unknown));
  engine::Sampling& sampling = request.sampling;
  engine::apply_model_sampling(model, request.given, sampling);
  return Json({{"temperature", sampling.temperature},
               {"top_k", sampling.top_k},
               {"top_p", sampling.top_p},
               {"min_p", sampling.min_p},
               {"repeat_penalty", sampling.repetition_penalty},
               {"presence_penalty", sampling.presence_penalty},
               {"frequency_penalty", sampling.frequency_penalty}});
}

// Returns the name of a token, or "" where the model has none, as llama-server does.
std::string name_of(const std::optional<text::Token>& token, const text::Tokenizer& tokenizer) {
  return token ? tokenizer.piece(*token, true) : "";
}

}  // namespace

// Answers in SGLang's form, which has one model: the first. Replaces paths by the model's id, so
// that no path of this machine is revealed.
ApiResult<HttpResponse> Api::server_info(const Call&) const {
  const std::string& name = models_.name(0);
  Json info = {{"model_path", name},
               {"served_model_name", name},
               {"tokenizer_path", name},
               {"version", KVICK_VERSION},
               {"dp_size", 1}};
  if (const auto first = models_.look(0)) info["context_length"] = first->service->context();
  return HttpResponse{.body = to_text(info)};
}

ApiResult<HttpResponse> Api::model_info(const Call&) const {
  const std::string& name = models_.name(0);
  Json info = {{"model_path", name}, {"tokenizer_path", name}, {"is_generation", true}};
  if (const auto first = models_.look(0)) {
    info["model_type"] = first->engine->model().config().arch;
    info["max_context_length"] = first->service->context();
  }
  return HttpResponse{.body = to_text(info)};
}

ApiResult<HttpResponse> Api::load(const Call&) const {
  const engine::Metrics metrics = all_metrics();
  const uint64_t waiting = uint64_t{metrics.waiting} + metrics.preempted;
  const uint64_t requests = waiting + metrics.running;
  if (options_.load_form == LoadForm::kVllm)
    return HttpResponse{.body = to_text({{"load", requests}})};
  const Json rank = {{"dp_rank", 0},
                     {"num_reqs", requests},
                     {"num_waiting_reqs", waiting},
                     {"num_tokens", metrics.job_tokens}};
  return HttpResponse{.body = to_text(Json::array({rank}))};
}

// Answers in SGLang's newer form, which its gateway reads. All models count as one.
ApiResult<HttpResponse> Api::loads(const Call&) const {
  engine::Metrics all;
  uint64_t used = 0, limit = 0, used_tokens = 0, most_tokens = 0;
  for (const ModelHost::Lease& model : loaded_models()) {
    const engine::Metrics metrics = model->service->metrics();
    all.add(metrics);
    const uint64_t bytes = std::min(used_bytes(metrics), metrics.kv_limit_bytes);
    used += bytes;
    limit += metrics.kv_limit_bytes;
    if (metrics.token_bytes == 0) continue;
    used_tokens += bytes / metrics.token_bytes;
    most_tokens += metrics.kv_limit_bytes / metrics.token_bytes;
  }
  const uint64_t waiting = uint64_t{all.waiting} + all.preempted;
  const double share = limit == 0 ? 0 : static_cast<double>(used) / static_cast<double>(limit);
  Json rank = {{"dp_rank", 0},
               {"num_running_reqs", all.running},
               {"num_waiting_reqs", waiting},
               {"num_total_reqs", waiting + all.running},
               {"token_usage", share}};
  if (most_tokens > 0) {
    constexpr uint64_t kMost = INT32_MAX;  // the gateway reads numbers of 32 bits
    rank["num_used_tokens"] = std::min(used_tokens, kMost);
    rank["max_total_num_tokens"] = std::min(most_tokens, kMost);
  }
  if (options_.max_sequences > 0) rank["max_running_requests"] = options_.max_sequences;
  return json_response({{"timestamp", rfc3339(options_.unix_time())},
                        {"version", KVICK_VERSION},
                        {"dp_rank_count", 1},
                        {"loads", Json::array({std::move(rank)})}});
}

// Flushes the cache, by SGLang's name and vLLM's. Keeps rows of running requests and files.
ApiResult<HttpResponse> Api::flush(const Call&) const {
  for (const ModelHost::Lease& model : loaded_models()) model->service->flush();
  return HttpResponse{.body = to_text({{"success", true}})};
}

// Describes a model as llama-server does: the first, or the one that the query names (?model=NAME).
// Of a model that is not in memory only the name is known.
ApiResult<HttpResponse> Api::props(const Call& call) const {
  const Json asked = {{"model", query_of(call.request.target, "model")}};
  KVICK_TRY(const size_t found, model_of(Route{}, asked));
  const std::string& name = models_.name(found);
  Json props = {{"model_alias", name},
                {"model_path", name},
                {"modalities", {{"vision", false}, {"video", false}, {"audio", false}}},
                {"endpoint_slots", false},
                {"endpoint_props", false},
                {"endpoint_metrics", true},
                {"build_info", fmt::format("kvick {}", KVICK_VERSION)}};
  if (options_.max_sequences > 0) props["total_slots"] = options_.max_sequences;
  const ModelHost::Lease model = models_.look(found);
  props["is_sleeping"] = model == nullptr;
  if (model == nullptr) return json_response(props);
  const text::Tokenizer& tokenizer = model->engine->tokenizer();
  KVICK_TRY(Json params, default_sampling(model->engine->sampling()));
  props["default_generation_settings"] = {{"n_ctx", model->service->context()},
                                          {"params", std::move(params)}};
  props["chat_template"] = tokenizer.vocabulary().chat_template;
  props["bos_token"] = name_of(tokenizer.vocabulary().bos, tokenizer);
  props["eos_token"] = name_of(tokenizer.vocabulary().eos, tokenizer);
  return json_response(props);
}

ApiResult<HttpResponse> Api::slots(const Call&) const {
  return ApiError{.status = 404,
                  .message =
                      "this server has no slots: requests share its memory; GET "
                      "/debug/requests lists the requests (with --debug), GET /kv what the "
                      "cache holds, and GET /metrics their counts",
                  .code = "not_found"};
}

}  // namespace kvick::server
