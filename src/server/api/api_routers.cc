// What routers before several servers ask of each: vLLM's router and the SGLang gateway.

#include "server/api/api.h"

namespace kvick::server {

// As SGLang has it. No path of this machine is anybody's business: the model goes by its id.
ApiResult<HttpResponse> Api::server_info(const Call&) const {
  return HttpResponse{.body = to_text({{"model_path", options_.model},
                                       {"served_model_name", options_.model},
                                       {"tokenizer_path", options_.model},
                                       {"version", KVICK_VERSION},
                                       {"dp_size", 1},
                                       {"context_length", service_.context()}})};
}

ApiResult<HttpResponse> Api::model_info(const Call&) const {
  return HttpResponse{.body = to_text({{"model_path", options_.model},
                                       {"tokenizer_path", options_.model},
                                       {"is_generation", true},
                                       {"model_type", engine_.model().config().arch},
                                       {"max_context_length", service_.context()}})};
}

ApiResult<HttpResponse> Api::load(const Call&) const {
  const engine::Metrics metrics = service_.metrics();
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

// SGLang's name and vLLM's. What running requests use stays, and so do files.
ApiResult<HttpResponse> Api::flush(const Call&) const {
  service_.flush();
  return HttpResponse{.body = to_text({{"success", true}})};
}

}  // namespace kvick::server
