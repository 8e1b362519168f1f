#include "server/api/api.h"

#include <mutex>

#include "server/net/reply_headers.h"
#include "server/request/fields.h"
#include "server/request/header_fields.h"

namespace kvick::server {
namespace {

using base::Done;

// What the SGLang gateway sends for a request that names no model.
constexpr std::string_view kSglangPlaceholder = "unknown";

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  if (content_type.size() < kJson.size()) return false;
  for (size_t i = 0; i < kJson.size(); ++i) {
    const char c = content_type[i];
    if ((c >= 'A' && c <= 'Z' ? c + 32 : c) != kJson[i]) return false;
  }
  const std::string_view rest = content_type.substr(kJson.size());
  return rest.empty() || rest.front() == ';' || rest.front() == ' ';
}

// Requests are planned on several threads.
std::function<uint64_t()> one_at_a_time(std::function<uint64_t()> random) {
  return [mutex = std::make_shared<std::mutex>(), random = std::move(random)] {
    const std::lock_guard lock(*mutex);
    return random();
  };
}

ApiError unauthorized() {
  return {.status = 401,
          .message = "give an API key of this server as the header Authorization: Bearer KEY",
          .code = "invalid_api_key",
          .headers = {{"WWW-Authenticate", "Bearer"}}};
}

}  // namespace

// Either answers, or reads the body and answers, or makes the plan of a generation.
struct Api::Route {
  RouteName name;
  ApiResult<HttpResponse> (Api::*answer)(const Call&) const = nullptr;
  ApiResult<HttpResponse> (Api::*read)(const Json&, UnknownFields&) const = nullptr;
  ApiResult<Plan> (Api::*plan)(const Json&, UnknownFields&) const = nullptr;
  bool open = false;     // without a key
  bool at_once = false;  // on the network's thread
  bool no_body = false;  // and so no type of one is asked for
};

const Api::Route Api::kRoutes[] = {
    {.name = {"GET", "/health"}, .answer = &Api::health, .open = true, .at_once = true},
    {.name = {"GET", "/"}, .answer = &Api::page, .open = true, .at_once = true},
    {.name = {"GET", "/page.css"}, .answer = &Api::page, .open = true, .at_once = true},
    {.name = {"GET", "/page.js"}, .answer = &Api::page, .open = true, .at_once = true},
    {.name = {"GET", "/openapi.json"}, .answer = &Api::openapi, .at_once = true},
    {.name = {"GET", "/metrics"}, .answer = &Api::metrics, .at_once = true},
    {.name = {"GET", "/kv"}, .answer = &Api::cache},
    {.name = {"GET", "/v1/models"}, .answer = &Api::models, .at_once = true},
    {.name = {"GET", "/v1/models/{id}"}, .answer = &Api::model, .at_once = true},
    {.name = {"POST", "/v1/completions"}, .plan = &Api::complete},
    {.name = {"POST", "/v1/chat/completions"}, .plan = &Api::chat},
    {.name = {"POST", "/tokenize"}, .read = &Api::tokenize},
    {.name = {"POST", "/detokenize"}, .read = &Api::detokenize},
    {.name = {"GET", "/server_info"}, .answer = &Api::server_info, .at_once = true},
    {.name = {"GET", "/get_server_info"}, .answer = &Api::server_info, .at_once = true},
    {.name = {"GET", "/model_info"}, .answer = &Api::model_info, .at_once = true},
    {.name = {"GET", "/get_model_info"}, .answer = &Api::model_info, .at_once = true},
    {.name = {"GET", "/get_load"}, .answer = &Api::load},
    {.name = {"POST", "/flush_cache"}, .answer = &Api::flush, .at_once = true, .no_body = true},
    {.name = {"POST", "/reset_prefix_cache"},
     .answer = &Api::flush,
     .at_once = true,
     .no_body = true},
};

std::span<const RouteName> Api::routes() {
  static const std::vector<RouteName> kNames = [] {
    std::vector<RouteName> names;
    for (const Route& route : kRoutes) names.push_back(route.name);
    return names;
  }();
  return kNames;
}

Api::Api(const engine::Engine& engine, engine::Service& service, ApiOptions options,
         Threads threads, const NetworkCounters& counters)
    : engine_(engine),
      service_(service),
      options_(std::move(options)),
      threads_(std::move(threads)),
      counters_(counters),
      began_(options_.unix_time()) {
  options_.random = one_at_a_time(std::move(options_.random));
}

ApiStatus Api::check(const Route& route, const HttpRequest& request) const {
  if (!route.open && !options_.keys.admit(request.authorization)) return unauthorized();
  // Also what keeps web pages of other sites out: a browser asks before it sends JSON elsewhere. A
  // route without a body is kept from them by their Origin alone.
  if (route.name.method == "POST" && !route.no_body && !is_json(request.content_type))
    return ApiError{.status = 415,
                    .message = "send JSON, with the header Content-Type: application/json",
                    .code = "unsupported_media_type"};
  return Done{};
}

ApiResult<Match> Api::find(const HttpRequest& head) const {
  KVICK_TRY(const Match matched, match(routes(), head.method, path_of(head.target)));
  KVICK_TRY_VOID(check(kRoutes[matched.route], head));
  return matched;
}

std::optional<HttpResponse> Api::refuses(const HttpRequest& head) const {
  const auto found = find(head);
  if (!found.ok()) return error_response(found.error());
  if (counters_.draining && kRoutes[found->route].plan != nullptr)
    return error_response(draining());
  return std::nullopt;
}

// Routers try another server.
ApiError Api::draining() {
  return {.status = 503,
          .message = "the server is about to end; ask another, or again when it is back",
          .code = "draining",
          .headers = {{"Retry-After", "1"}}};
}

void Api::handle(HttpRequest request, std::shared_ptr<Reply> reply) {
  const auto matched = find(request);
  if (!matched.ok()) return reply->send(error_response(matched.error()));
  const Route& route = kRoutes[matched->route];
  const auto call = std::make_shared<const Call>(
      Call{std::move(request), matched->argument, std::move(reply), counters_});
  if (route.at_once) return run_guarded(route, *call);
  threads_.background([this, &route, call] { run_guarded(route, *call); });
}

// A request that breaks something is one request; the others go on.
void Api::run_guarded(const Route& route, const Call& call) const {
  try {
    run(route, call);
  } catch (const std::exception& error) {
    try {
      if (options_.report)
        options_.report(fmt::format("{} {}: {}", route.name.method, route.name.path, error.what()));
      threads_.network([reply = call.reply] {
        reply->send(
            error_response({.status = 500, .message = "the server failed on this request"}));
      });
    } catch (const std::exception&) {  // the reply answers for itself when it is destroyed
    }
  }
}

void Api::send(const std::shared_ptr<Reply>& reply, ApiResult<HttpResponse> answer) const {
  threads_.network([reply, response = answer.ok() ? *std::move(answer)
                                                  : error_response(answer.error())]() mutable {
    reply->send(std::move(response));
  });
}

void Api::run(const Route& route, const Call& call) const {
  if (route.answer != nullptr) return send(call.reply, (this->*route.answer)(call));
  auto body = parse_json(call.request.body);
  if (!body.ok())
    return send(call.reply,
                bad_field("", "the request's body cannot be read: {}", body.error().message));
  UnknownFields unknown(options_.strict_fields);
  if (route.read != nullptr) {
    auto answer = (this->*route.read)(*body, unknown);
    return send(named(call.reply, unknown), std::move(answer));
  }
  const auto chosen = add_header_fields(call.request.choices, *body, unknown);
  if (!chosen.ok()) return send(call.reply, chosen.error());
  auto plan = (this->*route.plan)(*body, unknown);
  const std::shared_ptr<Reply> reply = named(call.reply, unknown);
  if (!plan.ok()) return send(reply, plan.error());
  const auto allowed = check_limits(*plan, options_.limits, {engine_, service_.context()});
  if (!allowed.ok()) return send(reply, allowed.error());
  generate(*std::move(plan), reply);
}

// A reply that says which fields were ignored; the log says it too.
std::shared_ptr<Reply> Api::named(const std::shared_ptr<Reply>& reply,
                                  const UnknownFields& unknown) const {
  unknown_fields_.add(unknown, options_.report);
  return with_headers(reply, unknown.headers());
}

void Api::generate(Plan plan, const std::shared_ptr<Reply>& reply) const {
  AnswerHead head = {
      .id = fmt::format("{}-{:016x}", plan.chat ? "chatcmpl" : "cmpl", options_.random()),
      .model = options_.model,
      .created = options_.unix_time(),
      .logprobs = plan.jobs.front().logprobs.has_value(),
      .include_usage = plan.include_usage,
      .choices = plan.choices};
  if (plan.token_ids)
    for (const engine::Job& job : plan.jobs) head.prompts.push_back(job.prompt);
  const text::Tokenizer& tokenizer = engine_.tokenizer();
  auto format = plan.chat ? chat_format(std::move(head), tokenizer)
                          : completion_format(std::move(head), tokenizer);
  const auto generation =
      std::make_shared<Generation>(service_, threads_, std::move(format), reply);
  threads_.network([generation, reply] { generation->watch(*reply); });
  generation->submit(std::move(plan));
}

ApiStatus Api::check_model(const std::string& model) const {
  if (model.empty() || model == options_.model || options_.any_model) return Done{};
  if (model == kSglangPlaceholder) return Done{};
  return no_model(model);
}

ApiError Api::no_model(const std::string& model) const {
  return {.status = 404,
          .message = fmt::format("the model {} is not here; this server has {}", in_quotes(model),
                                 in_quotes(options_.model)),
          .param = "model",
          .code = "model_not_found"};
}

ApiResult<Plan> Api::complete(const Json& body, UnknownFields& unknown) const {
  KVICK_TRY(const CompletionRequest request, parse_completion(body, unknown));
  KVICK_TRY_VOID(check_model(request.model));
  return plan_completion(request, {engine_, options_.constraint, options_.random});
}

ApiResult<Plan> Api::chat(const Json& body, UnknownFields& unknown) const {
  KVICK_TRY(const ChatRequest request, parse_chat(body, unknown));
  KVICK_TRY_VOID(check_model(request.model));
  return plan_chat(request, {engine_, options_.constraint, options_.random});
}

}  // namespace kvick::server
