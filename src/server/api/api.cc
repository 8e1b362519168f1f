#include <mutex>

#include "server/api/route.h"
#include "server/infill/infill_format.h"
#include "server/infill/infill_request.h"
#include "server/net/reply_headers.h"
#include "server/request/fields.h"
#include "server/request/header_fields.h"
#include "server/request/job_error.h"

namespace kvick::server {
namespace {

using base::Done;

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

// Makes `random` safe for the several threads that plan requests.
std::function<uint64_t()> one_at_a_time(std::function<uint64_t()> random) {
  return [mutex = std::make_shared<std::mutex>(), random = std::move(random)] {
    const std::lock_guard lock(*mutex);
    return random();
  };
}

// Returns the id of the adapter or model that answers.
std::string answering_model(const Plan& plan, const std::string& model) {
  const engine::AdapterUse& used = plan.jobs.front().adapter;
  return used.weights() != nullptr ? used.adapter->name : model;
}

constexpr size_t kMostMethodBytes = 16;  // a client may send any word as the method

RequestFacts facts_of(const HttpRequest& request, std::string_view route) {
  RequestFacts facts;
  facts.id = request.id;
  facts.client = request.address;
  facts.method = request.method.substr(0, kMostMethodBytes);
  facts.route = route;
  return facts;
}

ApiError unauthorized() {
  return {.status = 401,
          .message = "give an API key of this server as the header Authorization: Bearer KEY",
          .code = "invalid_api_key",
          .headers = {{"WWW-Authenticate", "Bearer"}}};
}

}  // namespace

Api::Api(const engine::Engine& engine, engine::Service& service, ApiOptions options,
         Threads threads, const NetworkCounters& counters)
    : own_models_(std::make_unique<ModelHost>(
          options.model, LoadedModel{.owner = nullptr,
                                     .engine = &engine,
                                     .service = &service,
                                     .constraint = std::move(options.constraint),
                                     .limits = std::move(options.limits)})),
      models_(*own_models_),
      options_(std::move(options)),
      threads_(std::move(threads)),
      counters_(counters),
      clients_(options_.counts) {
  begin();
}

Api::Api(ModelHost& models, ApiOptions options, Threads threads, const NetworkCounters& counters)
    : models_(models),
      options_(std::move(options)),
      threads_(std::move(threads)),
      counters_(counters),
      clients_(options_.counts) {
  begin();
}

void Api::begin() {
  began_ = options_.unix_time();
  if (options_.response_store_bytes > 0)
    responses_ = std::make_shared<ResponseStore>(options_.response_store_bytes);
  options_.random = one_at_a_time(std::move(options_.random));
}

Api::~Api() { models_.stop(); }

ApiStatus Api::check(const Route& route, const HttpRequest& request) const {
  if (!route.open && !options_.keys.admit(request.authorization)) return unauthorized();
  // This check also keeps out web pages of other sites: a browser sends JSON to another site only
  // after a preflight request. Routes without a body or with any type of body are protected only by
  // the check of Origin.
  const bool typed = route.name.method == "POST" && !route.no_body && !route.any_type;
  if (typed && !is_json(request.content_type))
    return ApiError{.status = 415,
                    .message = "send JSON, with the header Content-Type: application/json",
                    .code = "unsupported_media_type"};
  return Done{};
}

std::optional<HttpResponse> Api::refuses(const HttpRequest& head) const {
  const std::string path = path_of(head.target);
  const auto found = match(routes(), head.method, path);
  if (!found.ok()) {
    note_refused(nullptr, head, found.error());
    return error_at(path, found.error());
  }
  const Route& route = kRoutes[found->route];
  ApiStatus checked = check(route, head);
  if (checked.ok() && route.makes_jobs())
    checked = counters_.draining ? ApiStatus(draining()) : clients_.check(client_of(head));
  if (checked.ok()) return std::nullopt;
  note_refused(&route, head, checked.error());
  return route.error(checked.error());
}

ClientCounts::Client Api::client_of(const HttpRequest& request) const {
  return {.key = options_.keys.owner(request.authorization), .address = request.address};
}

HttpResponse Api::error_of(const HttpRequest& head, const ApiError& error) const {
  return error_at(path_of(head.target), error);
}

// Status 503 makes routers try another server.
ApiError Api::draining() {
  return {.status = 503,
          .message = "the server is shutting down; use another server, or try again later",
          .code = "draining",
          .headers = {{"Retry-After", "1"}}};
}

std::shared_ptr<Reply> Api::watched(const Route& route, const HttpRequest& request,
                                    std::shared_ptr<Reply> reply) const {
  if (route.makes_jobs() && options_.book->wants_pressure())
    options_.book->take_pressure(all_metrics());
  RequestFacts facts = facts_of(request, route.name.path);
  facts.generates = route.makes_jobs();
  return options_.book->begin(std::move(facts), request.trace_parent, std::move(reply));
}

void Api::note_refused(const Route* route, const HttpRequest& head, const ApiError& error) const {
  if (options_.book == nullptr) return;
  RequestFacts facts = facts_of(head, route != nullptr ? route->name.path : "(no route)");
  // The error of an unknown path quotes the path, so it is not logged.
  facts.fail(error, route != nullptr);
  options_.book->refuse(std::move(facts), error.status);
}

void Api::note_model(const Call& call, const engine::AdapterUse& adapter) const {
  const std::shared_ptr<RequestRecord> record = call.reply->record();
  if (record == nullptr) return;
  record->change([&](RequestFacts& facts) {
    facts.model = call.model->name;
    if (adapter.weights() != nullptr) facts.adapter = adapter.adapter->name;
  });
}

void Api::handle(HttpRequest request, std::shared_ptr<Reply> reply) {
  const std::string path = path_of(request.target);
  const auto matched = match(routes(), request.method, path);
  if (!matched.ok()) return reply->send(error_at(path, matched.error()));
  const Route& route = kRoutes[matched->route];
  const ApiStatus checked = check(route, request);
  if (!checked.ok()) return reply->send(route.error(checked.error()));
  if (options_.book != nullptr) reply = watched(route, request, std::move(reply));
  if (route.makes_jobs()) {
    auto counted = clients_.count(client_of(request), reply);
    if (!counted.ok()) return reply->send(route.error(counted.error()));
    reply = *std::move(counted);
  }
  const auto call = std::make_shared<Call>(
      Call{std::move(request), matched->argument, std::move(reply), counters_});
  if (route.at_once) return guarded(&Api::run, route, call);
  threads_.background([this, &route, call] { guarded(&Api::run, route, call); });
}

// An exception fails only the request that caused it.
void Api::guarded(Step step, const Route& route, const std::shared_ptr<Call>& call) const {
  try {
    (this->*step)(route, call);
  } catch (const std::exception& error) {
    try {
      if (options_.report)
        options_.report(fmt::format("{} {}: {}", route.name.method, route.name.path, error.what()));
      threads_.network([&route, reply = call->reply] {
        reply->send(route.error({.status = 500, .message = "the server failed on this request"}));
      });
    } catch (const std::exception&) {  // the reply answers in its destructor
    }
  }
}

void Api::send(const Route& route, const std::shared_ptr<Reply>& reply,
               ApiResult<HttpResponse> answer) const {
  if (const auto record = reply->record(); record != nullptr && !answer.ok())
    record->change([&](RequestFacts& facts) { facts.fail(answer.error(), false); });
  threads_.network(
      [reply, response = answer.ok() ? *std::move(answer) : route.error(answer.error())]() mutable {
        reply->send(std::move(response));
      });
}

void Api::run(const Route& route, const std::shared_ptr<Call>& call) const {
  if (route.answer != nullptr) return send(route, call->reply, (this->*route.answer)(*call));
  auto body = parse_json(call->request.body);
  if (!body.ok())
    return send(route, call->reply,
                bad_field("", "the request's body cannot be read: {}", body.error().message));
  call->body = *std::move(body);
  call->ollama = route.ollama;
  const ApiResult<size_t> model = model_of(route, call->body);
  if (!model.ok()) return send(route, call->reply, model.error());
  if (route.names_model) return run_on_model(route, call);
  call->model = models_.use(*model);
  if (call->model == nullptr) return run_once_loaded(route, call, *model);
  run_on_model(route, call);
}

void Api::run_once_loaded(const Route& route, const std::shared_ptr<Call>& call,
                          size_t model) const {
  // Posted before any later on_gone(), to the same thread: a reply keeps only the last function.
  const auto left = std::make_shared<std::atomic<bool>>(false);
  threads_.network([left, reply = call->reply] { reply->on_gone([left] { *left = true; }); });
  const auto go_on = [this, &route, call](ApiResult<ModelHost::Lease> loaded) {
    if (!loaded.ok()) return send(route, call->reply, loaded.error());
    call->model = *std::move(loaded);
    threads_.background([this, &route, call] { guarded(&Api::run_on_model, route, call); });
  };
  models_.when_loaded(model, go_on, left);
}

void Api::run_on_model(const Route& route, const std::shared_ptr<Call>& call) const {
  UnknownFields unknown(options_.strict_fields);
  if (route.makes_jobs())  // checked before tokenizing, which takes long for long texts
    if (const auto refusal = call->model->service->refuses_now())
      return send(route, call->reply, job_error(*refusal, ""));
  if (route.read != nullptr) {
    auto answer = (this->*route.read)(*call, unknown);
    return send(route, named(call->reply, unknown), std::move(answer));
  }
  if (route.embed != nullptr)
    return answer_embeddings(route, *call, (this->*route.embed)(*call, unknown), unknown);
  const auto chosen = add_header_fields(call->request.choices, call->body, unknown);
  if (!chosen.ok()) return send(route, call->reply, chosen.error());
  auto plan = (this->*route.plan)(*call, unknown);
  const std::shared_ptr<Reply> reply = named(call->reply, unknown);
  if (!plan.ok()) return send(route, reply, plan.error());
  if (plan->answer) return send(route, reply, *std::move(plan->answer));
  const LoadedModel& model = *call->model;
  const auto allowed = check_limits(*plan, model.limits, {*model.engine, model.service->context()});
  if (!allowed.ok()) return send(route, reply, allowed.error());
  generate(*std::move(plan), *call, reply);
}

// Returns a reply that names the ignored fields in a header; also logs them.
std::shared_ptr<Reply> Api::named(const std::shared_ptr<Reply>& reply,
                                  const UnknownFields& unknown) const {
  unknown_fields_.add(unknown, options_.report);
  return with_headers(reply, unknown.headers());
}

void Api::generate(Plan plan, const Call& call, const std::shared_ptr<Reply>& reply) const {
  AnswerHead head = {.number = options_.random(),
                     .model = answering_model(plan, call.model->name),
                     .created = options_.unix_time(),
                     .logprobs = plan.logprobs.has_value(),
                     .most_top = plan.logprobs.value_or(0),
                     .prompt_logprobs = plan.prompt_logprobs,
                     .echo = !plan.echo.empty(),
                     .include_usage = plan.include_usage,
                     .choices = plan.choices};
  for (const engine::Job& job : plan.jobs) {
    head.prompt_tokens += job.prompt.size();
    if (plan.token_ids) head.prompts.push_back(job.prompt);
  }
  plan.lease = call.model;
  note_model(call, plan.jobs.front().adapter);
  const auto generation = std::make_shared<Generation>(
      *call.model->service, threads_, plan.format(std::move(head)), reply, options_.clock);
  threads_.network([generation, reply] { generation->watch(*reply); });
  generation->submit(std::move(plan));
}

PlanContext Api::plan_context(const Call& call) const {
  return {.engine = *call.model->engine,
          .constraint = call.model->constraint,
          .random = options_.random,
          .stop_loops = options_.stop_loops,
          .adapter = adapter_of(call),
          .most_tokens = call.model->service->context()};
}

ApiResult<Plan> Api::complete(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(const CompletionRequest request, parse_completion(call.body, unknown));
  return plan_completion(request, plan_context(call));
}

ApiResult<Plan> Api::infill(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(const CompletionRequest request, parse_infill(call.body, unknown));
  KVICK_TRY(Plan plan, plan_completion(request, plan_context(call)));
  plan.format = infill_format(call.model->engine->tokenizer(), asks_for_no_text(call.body));
  return plan;
}

ApiResult<Plan> Api::llama_completion(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(const CompletionRequest request, parse_llama_completion(call.body, unknown));
  KVICK_TRY(Plan plan, plan_completion(request, plan_context(call)));
  plan.format =
      llama_completion_format(call.model->engine->tokenizer(), asks_for_no_text(call.body));
  return plan;
}

ApiResult<Plan> Api::chat(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(const ChatRequest request, parse_chat(call.body, unknown));
  return plan_chat(request, plan_context(call));
}

}  // namespace kvick::server
