// The routes that answer at once.

#include "server/answer/template_messages.h"
#include "server/api/api.h"
#include "server/api/static_files.h"
#include "server/ops/cache_json.h"
#include "server/ops/metrics_text.h"
#include "server/ops/vllm_metrics.h"
#include "server/request/fields.h"
#include "server/request/token_list.h"

namespace kvick::server {
namespace {

HttpResponse json_response(const Json& json) { return {.body = to_text(json)}; }

// The tokens of a text, or of a conversation as the model would see it.
ApiResult<std::vector<engine::Token>> tokens_of(Fields& fields, const engine::Engine& engine) {
  KVICK_TRY(const bool special, fields.get_bool("add_special_tokens", true));
  if (fields.find("messages") != nullptr) {
    KVICK_TRY(const Json messages, read_messages(fields));
    KVICK_TRY(const engine::ChatEnd end, read_chat_end(fields));
    auto tokens = engine.chat_tokens(template_messages(messages, Json(), engine.answer_syntax()),
                                     {{"tools", nullptr}}, end);
    if (!tokens.ok()) return bad_field("messages", "{}", tokens.error().message);
    return *std::move(tokens);
  }
  if (fields.find("prompt") == nullptr) return bad_field("prompt", "prompt is missing");
  KVICK_TRY(const std::string prompt, fields.get_string("prompt", ""));
  return engine.tokenizer().encode(prompt, special, true);
}

}  // namespace

Json Api::model_json() const {
  return {{"id", options_.model},
          {"object", "model"},
          {"created", began_},
          {"owned_by", "kvick"},
          {"max_model_len", service_.context()}};
}

ApiResult<HttpResponse> Api::models(const Call&) const {
  return json_response({{"object", "list"}, {"data", Json::array({model_json()})}});
}

ApiResult<HttpResponse> Api::model(const Call& call) const {
  if (call.argument != options_.model) return no_model(call.argument);
  return json_response(model_json());
}

ApiResult<HttpResponse> Api::health(const Call& call) const {
  if (call.network.draining) return draining();
  return json_response({{"status", "ok"}});
}

// Its files are open: who lacks the key is asked for it by the page.
ApiResult<HttpResponse> Api::page(const Call& call) const {
  const std::string path = path_of(call.request.target);
  HttpResponse response = {.type = "text/html; charset=utf-8", .body = std::string(page_html())};
  if (path == "/page.css")
    response = {.type = "text/css; charset=utf-8", .body = std::string(page_css())};
  else if (path == "/page.js")
    response = {.type = "text/javascript; charset=utf-8", .body = std::string(page_js())};
  // Nothing but this server's own files, and no other site's frame around them.
  response.headers = {
      {"Content-Security-Policy", "default-src 'self'; img-src data:; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"}};
  return response;
}

ApiResult<HttpResponse> Api::metrics(const Call& call) const {
  const engine::Metrics metrics = service_.metrics();
  return HttpResponse{.type = kMetricsType,
                      .body = metrics_text(metrics, call.network, service_.instances()) +
                              vllm_metrics_text(metrics, options_.model)};
}

ApiResult<HttpResponse> Api::cache(const Call&) const {
  return json_response(cache_json(service_.cache()));
}

ApiResult<HttpResponse> Api::openapi(const Call&) const {
  return HttpResponse{.body = std::string(openapi_json())};
}

ApiResult<HttpResponse> Api::tokenize(const Json& body, UnknownFields& unknown) const {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  KVICK_TRY(const std::string model, fields.get_string("model", ""));
  KVICK_TRY_VOID(check_model(model));
  KVICK_TRY(const std::vector<engine::Token> tokens, tokens_of(fields, engine_));
  fields.ignore_defaults();
  KVICK_TRY_VOID(fields.check_rest());
  return json_response(
      {{"tokens", tokens}, {"count", tokens.size()}, {"max_model_len", service_.context()}});
}

ApiResult<HttpResponse> Api::detokenize(const Json& body, UnknownFields& unknown) const {
  KVICK_TRY(Fields fields, Fields::of(body, "", unknown));
  KVICK_TRY(const std::string model, fields.get_string("model", ""));
  KVICK_TRY_VOID(check_model(model));
  const Json* list = fields.find("tokens");
  if (list == nullptr || !list->is_array())
    return bad_field("tokens", "tokens must be a list of token ids");
  KVICK_TRY(const std::vector<engine::Token> tokens, read_tokens(*list, "tokens"));
  KVICK_TRY_VOID(fields.check_rest());
  const size_t vocab = engine_.tokenizer().vocabulary().pieces.size();
  for (const engine::Token token : tokens)
    if (static_cast<size_t>(token) >= vocab)
      return bad_field("tokens", "there is no token {}; the vocabulary ends at {}", token,
                       vocab - 1);
  return json_response({{"prompt", engine_.tokenizer().decode(tokens, true)}});
}

}  // namespace kvick::server
