// The routes by which routers query each server: vLLM's router and the SGLang gateway.

#include "server/api/api.h"

namespace kvick::server {

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

// Flushes the cache, by SGLang's name and vLLM's. Keeps rows of running requests and files.
ApiResult<HttpResponse> Api::flush(const Call&) const {
  for (const ModelHost::Lease& model : loaded_models()) model->service->flush();
  return HttpResponse{.body = to_text({{"success", true}})};
}

}  // namespace kvick::server
