#pragma once
// What the server answers: a table of routes, and one function for each.

#include <span>
#include <utility>

#include "server/api/generation.h"
#include "server/ops/api_keys.h"
#include "server/ops/client_limits.h"
#include "server/request/http.h"
#include "server/request/target.h"
#include "server/request/unknown_fields.h"

namespace kvick::server {

// Of GET /get_load: the SGLang gateway sums the tokens of a list, vLLM's router reads one number.
enum class LoadForm { kSglang, kVllm };

struct ApiOptions {
  std::string model;           // the id that clients see
  bool any_model = false;      // requests may name any other
  bool strict_fields = false;  // unknown fields are refused, not ignored
  LoadForm load_form = LoadForm::kSglang;
  ApiKeys keys;
  MakeConstraint constraint;
  std::function<uint64_t()> random;    // of seeds and ids; called by one thread at a time
  std::function<int64_t()> unix_time;  // seconds since 1970
  // Told, in one sentence, what of the server itself broke on a request, and which unknown fields
  // requests have.
  std::function<void(const std::string&)> report;
  ClientLimits limits = {};
};

class Api final : public Handler {
 public:
  // engine, service and counters outlive it, and it outlives what it hands to threads.
  Api(const engine::Engine& engine, engine::Service& service, ApiOptions options, Threads threads,
      const NetworkCounters& counters);

  std::optional<HttpResponse> refuses(const HttpRequest& head) const override;
  void handle(HttpRequest request, std::shared_ptr<Reply> reply) override;

  // What there is, in the order of the table.
  static std::span<const RouteName> routes();

 private:
  struct Call {
    HttpRequest request;
    std::string argument;
    std::shared_ptr<Reply> reply;
    NetworkCounters network;  // when it came
  };
  struct Route;
  static const Route kRoutes[];

  ApiResult<HttpResponse> models(const Call& call) const;
  ApiResult<HttpResponse> model(const Call& call) const;
  ApiResult<HttpResponse> health(const Call& call) const;
  ApiResult<HttpResponse> metrics(const Call& call) const;
  ApiResult<HttpResponse> cache(const Call& call) const;
  ApiResult<HttpResponse> page(const Call& call) const;
  ApiResult<HttpResponse> openapi(const Call& call) const;
  ApiResult<HttpResponse> server_info(const Call& call) const;
  ApiResult<HttpResponse> model_info(const Call& call) const;
  ApiResult<HttpResponse> load(const Call& call) const;
  ApiResult<HttpResponse> flush(const Call& call) const;
  ApiResult<HttpResponse> tokenize(const Json& body, UnknownFields& unknown) const;
  ApiResult<HttpResponse> detokenize(const Json& body, UnknownFields& unknown) const;
  ApiResult<Plan> complete(const Json& body, UnknownFields& unknown) const;
  ApiResult<Plan> chat(const Json& body, UnknownFields& unknown) const;

  ApiStatus check(const Route& route, const HttpRequest& request) const;
  ApiResult<Match> find(const HttpRequest& head) const;
  void send(const std::shared_ptr<Reply>& reply, ApiResult<HttpResponse> answer) const;
  void run(const Route& route, const Call& call) const;
  void run_guarded(const Route& route, const Call& call) const;
  std::shared_ptr<Reply> named(const std::shared_ptr<Reply>& reply,
                               const UnknownFields& unknown) const;
  void generate(Plan plan, const std::shared_ptr<Reply>& reply) const;
  static ApiError draining();
  ApiStatus check_model(const std::string& model) const;
  ApiError no_model(const std::string& model) const;
  Json model_json() const;

  const engine::Engine& engine_;
  engine::Service& service_;
  ApiOptions options_;
  Threads threads_;
  const NetworkCounters& counters_;
  int64_t began_;
  mutable UnknownFieldLog unknown_fields_;
};

}  // namespace kvick::server
