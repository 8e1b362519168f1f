#pragma once
// What the server answers: a table of routes, and one function for each.

#include <span>

#include "server/api_keys.h"
#include "server/client_limits.h"
#include "server/generation.h"
#include "server/http.h"
#include "server/target.h"

namespace kvick::server {

struct ApiOptions {
  std::string model;  // the id that clients see
  ApiKeys keys;
  MakeConstraint constraint;
  std::function<uint64_t()> random;    // of seeds and ids; called by one thread at a time
  std::function<int64_t()> unix_time;  // seconds since 1970
  // Told, in one sentence, what of the server itself broke on a request.
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
  ApiResult<HttpResponse> tokenize(const Call& call) const;
  ApiResult<HttpResponse> detokenize(const Call& call) const;
  ApiResult<Plan> complete(const Json& body) const;
  ApiResult<Plan> chat(const Json& body) const;

  ApiStatus check(const Route& route, const HttpRequest& request) const;
  ApiResult<Match> find(const HttpRequest& head) const;
  void run(const Route& route, const Call& call) const;
  void run_guarded(const Route& route, const Call& call) const;
  void generate(Plan plan, const std::shared_ptr<Reply>& reply) const;
  ApiStatus check_model(const std::string& model) const;
  Json model_json() const;

  const engine::Engine& engine_;
  engine::Service& service_;
  ApiOptions options_;
  Threads threads_;
  const NetworkCounters& counters_;
  int64_t began_;
};

}  // namespace kvick::server
