#pragma once
// Handles requests: a table of routes, and one function for each.

#include <span>
#include <utility>

#include "server/api/api_options.h"
#include "server/api/generation.h"
#include "server/embeddings/embed_plan.h"
#include "server/ollama/model_json.h"
#include "server/ops/model_host.h"
#include "server/request/http.h"
#include "server/request/target.h"
#include "server/request/unknown_fields.h"
#include "server/responses/responses_request.h"

namespace kvick::server {

class Api final : public Handler {
 public:
  // Serves one model. engine, service and counters must outlive this object, which must outlive the
  // tasks that it posts to threads.
  Api(const engine::Engine& engine, engine::Service& service, ApiOptions options, Threads threads,
      const NetworkCounters& counters);
  // Serves several models. The host must outlive this object, whose destructor stops it.
  Api(ModelHost& models, ApiOptions options, Threads threads, const NetworkCounters& counters);
  ~Api() override;

  std::optional<HttpResponse> refuses(const HttpRequest& head) const override;
  HttpResponse error_of(const HttpRequest& head, const ApiError& error) const override;
  void handle(HttpRequest request, std::shared_ptr<Reply> reply) override;

  // Returns all routes, in the order of the table.
  static std::span<const RouteName> routes();

 private:
  struct Route;
  struct Call {
    HttpRequest request;
    std::string argument;
    std::shared_ptr<Reply> reply;
    NetworkCounters network;  // counters at the request's arrival
    Json body = {};           // set for routes that read a body
    // The model that the body names, or the first; for routes that need one.
    ModelHost::Lease model = {};
    bool ollama = false;  // see Route::ollama
  };
  using Step = void (Api::*)(const Route&, const std::shared_ptr<Call>&) const;
  static const Route kRoutes[];

  ApiResult<HttpResponse> models(const Call& call) const;
  ApiResult<HttpResponse> model(const Call& call) const;
  ApiResult<HttpResponse> health(const Call& call) const;
  ApiResult<HttpResponse> metrics(const Call& call) const;
  ApiResult<HttpResponse> cache(const Call& call) const;
  ApiResult<HttpResponse> lora_adapters(const Call& call) const;
  ApiResult<HttpResponse> page(const Call& call) const;
  ApiResult<HttpResponse> openapi(const Call& call) const;
  ApiResult<HttpResponse> server_info(const Call& call) const;
  ApiResult<HttpResponse> model_info(const Call& call) const;
  ApiResult<HttpResponse> load(const Call& call) const;
  ApiResult<HttpResponse> loads(const Call& call) const;
  ApiResult<HttpResponse> props(const Call& call) const;
  ApiResult<HttpResponse> slots(const Call& call) const;
  ApiResult<HttpResponse> flush(const Call& call) const;
  ApiResult<HttpResponse> debug_requests(const Call& call) const;
  ApiResult<HttpResponse> tokenize(const Call& call, UnknownFields& unknown) const;
  ApiResult<HttpResponse> detokenize(const Call& call, UnknownFields& unknown) const;
  ApiResult<Plan> complete(const Call& call, UnknownFields& unknown) const;
  ApiResult<Plan> chat(const Call& call, UnknownFields& unknown) const;
  ApiResult<Plan> anthropic_messages(const Call& call, UnknownFields& unknown) const;
  ApiResult<HttpResponse> anthropic_count(const Call& call, UnknownFields& unknown) const;
  ApiResult<EmbedPlan> embeddings(const Call& call, UnknownFields& unknown) const;
  ApiResult<EmbedPlan> rerank(const Call& call, UnknownFields& unknown) const;
  ApiResult<EmbedPlan> score(const Call& call, UnknownFields& unknown) const;
  ApiResult<Plan> infill(const Call& call, UnknownFields& unknown) const;
  ApiResult<Plan> llama_completion(const Call& call, UnknownFields& unknown) const;
  // Ollama's routes, in api_ollama.cc.
  ApiResult<Plan> ollama_chat(const Call& call, UnknownFields& unknown) const;
  ApiResult<Plan> ollama_generate(const Call& call, UnknownFields& unknown) const;
  ApiResult<HttpResponse> ollama_tags(const Call& call) const;
  ApiResult<HttpResponse> ollama_ps(const Call& call) const;
  ApiResult<HttpResponse> ollama_version(const Call& call) const;
  ApiResult<HttpResponse> ollama_show(const Call& call, UnknownFields& unknown) const;
  ApiResult<HttpResponse> ollama_pull(const Call& call, UnknownFields& unknown) const;
  ApiResult<EmbedPlan> ollama_embed(const Call& call, UnknownFields& unknown) const;
  ApiResult<EmbedPlan> ollama_embedding(const Call& call, UnknownFields& unknown) const;
  ApiResult<Plan> respond(const Call& call, UnknownFields& unknown) const;
  ApiResult<HttpResponse> count_input(const Call& call, UnknownFields& unknown) const;
  ApiResult<HttpResponse> response(const Call& call) const;
  ApiResult<HttpResponse> response_items(const Call& call) const;
  ApiResult<HttpResponse> delete_response(const Call& call) const;

  static HttpResponse json_response(const Json& json);
  void begin();
  ApiStatus check(const Route& route, const HttpRequest& request) const;
  ClientCounts::Client client_of(const HttpRequest& request) const;
  std::shared_ptr<Reply> watched(const Route& route, const HttpRequest& request,
                                 std::shared_ptr<Reply> reply) const;
  void note_refused(const Route* route, const HttpRequest& head, const ApiError& error) const;
  void note_model(const Call& call, const engine::AdapterUse& adapter) const;

  void send(const Route& route, const std::shared_ptr<Reply>& reply,
            ApiResult<HttpResponse> answer) const;
  void guarded(Step step, const Route& route, const std::shared_ptr<Call>& call) const;
  void run(const Route& route, const std::shared_ptr<Call>& call) const;
  void run_on_model(const Route& route, const std::shared_ptr<Call>& call) const;
  void run_once_loaded(const Route& route, const std::shared_ptr<Call>& call, size_t model) const;
  std::shared_ptr<Reply> named(const std::shared_ptr<Reply>& reply,
                               const UnknownFields& unknown) const;
  void generate(Plan plan, const Call& call, const std::shared_ptr<Reply>& reply) const;
  void answer_embeddings(const Route& route, const Call& call, ApiResult<EmbedPlan> plan,
                         const UnknownFields& unknown) const;
  PlanContext plan_context(const Call& call) const;
  // Returns the adapter that the request selects; none: the model itself.
  engine::AdapterUse adapter_of(const Call& call) const;
  EmbedContext embed_context(const Call& call) const;
  OllamaModel ollama_model(const LoadedModel& model) const;
  OllamaModel ollama_model(const LoadedModel& model, const engine::NamedAdapter& adapter) const;
  static ApiError draining();
  ApiResult<size_t> model_of(const Route& route, const Json& body) const;
  std::optional<size_t> find_model(std::string_view name) const;
  ApiError no_model(const std::string& name) const;
  ApiError no_ollama_model(const std::string& name) const;
  Json model_json(size_t model) const;
  Json adapter_json(const engine::NamedAdapter& adapter) const;
  // Returns the adapters if the server has one model. With several models there are none.
  engine::Adapters adapters() const;
  // Returns the loaded models, in their order.
  std::vector<ModelHost::Lease> loaded_models() const;
  engine::Metrics all_metrics() const;
  OwnedResponses responses_of(const Call& call) const;

  std::unique_ptr<ModelHost> own_models_;  // null: the host belongs to the caller
  ModelHost& models_;
  ApiOptions options_;
  Threads threads_;
  const NetworkCounters& counters_;
  int64_t began_;
  mutable UnknownFieldLog unknown_fields_;
  ClientCounts clients_;
  std::shared_ptr<ResponseStore> responses_;  // null: responses are not kept
};

}  // namespace kvick::server
