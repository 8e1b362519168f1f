// Routes that answer without a job.

#include <map>

#include "server/answer/template_messages.h"
#include "server/api/api.h"
#include "server/api/page_files.h"
#include "server/api/static_files.h"
#include "server/request/fields.h"
#include "server/request/token_list.h"
#include "server/watch/request_json.h"
#include "text/unicode/utf8.h"

namespace kvick::server {
namespace {

// Returns the tokens of a conversation as the model would read it, from the fields of a chat that
// affect its prompt.
ApiResult<std::vector<engine::Token>> chat_tokens(Fields& fields, const engine::Engine& engine) {
  Json body = Json::object();
  for (const char* name :
       {"messages", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "thinking",
        "chat_template_kwargs", "documents", "continue_final_message", "add_generation_prompt"})
    if (const Json* value = fields.find(name)) body[name] = *value;
  KVICK_TRY(const ChatRequest chat, parse_chat(body, fields.unknown()));
  auto tokens = engine.chat_tokens(
      template_messages(chat.messages, chat.tools.list, engine.answer_syntax()),
      template_variables(chat.variables, engine.tokenizer().vocabulary().chat_template), chat.end);
  if (!tokens.ok()) return bad_field("messages", "{}", tokens.error().message);
  return *std::move(tokens);
}

// Reads a text by llama-server's names, whose defaults differ.
ApiResult<std::vector<engine::Token>> content_tokens(Fields& fields, const engine::Engine& engine) {
  KVICK_TRY(const std::string content, fields.get_string("content", ""));
  KVICK_TRY(const bool special, fields.get_bool("add_special", false));
  KVICK_TRY(const bool marks, fields.get_bool("parse_special", true));
  return engine.tokenizer().encode(content, special, marks);
}

ApiResult<std::vector<engine::Token>> tokens_of(Fields& fields, const engine::Engine& engine) {
  if (fields.find("content") != nullptr) return content_tokens(fields, engine);
  KVICK_TRY(const bool special, fields.get_bool("add_special_tokens", true));
  if (fields.find("messages") != nullptr) return chat_tokens(fields, engine);
  if (fields.find("prompt") == nullptr) return bad_field("prompt", "prompt is missing");
  KVICK_TRY(const std::string prompt, fields.get_string("prompt", ""));
  return engine.tokenizer().encode(prompt, special, true);
}

// Returns a token with its text, as llama-server does: a string, or bytes where the token is a part
// of a character.
Json piece_json(engine::Token token, const text::Tokenizer& tokenizer) {
  const std::string bytes = tokenizer.piece(token, true);
  std::string rest = bytes, characters;
  text::drain_utf8(rest, true, characters);
  if (characters == bytes) return {{"id", token}, {"piece", bytes}};
  Json list = Json::array();
  for (const char c : bytes) list.push_back(static_cast<unsigned char>(c));
  return {{"id", token}, {"piece", std::move(list)}};
}

}  // namespace

ApiResult<HttpResponse> Api::debug_requests(const Call&) const {
  if (options_.book == nullptr || !options_.debug)
    return ApiError{.status = 404,
                    .message = "this server does not show its requests; start it with --debug",
                    .code = "not_found"};
  std::map<std::string, engine::CacheState, std::less<>> caches;
  for (const ModelHost::Lease& model : loaded_models())
    caches.emplace(model->name, model->service->cache());
  const std::vector<RequestFacts> running = options_.book->running();
  const std::vector<RequestFacts> ended = options_.book->ended();
  return json_response(requests_json({.running = running,
                                      .ended = ended,
                                      .cache =
                                          [&](const std::string& model) {
                                            const auto found = caches.find(model);
                                            return found != caches.end() ? &found->second : nullptr;
                                          },
                                      .now = options_.book->now()}));
}

HttpResponse Api::json_response(const Json& json) { return {.body = to_text(json)}; }

ApiResult<HttpResponse> Api::health(const Call& call) const {
  if (call.network.draining) return draining();
  return json_response({{"status", "ok"}});
}

// Serves the page, whose files need no key: the page asks the user for it.
ApiResult<HttpResponse> Api::page(const Call& call) const {
  const std::string path = path_of(call.request.target);
  auto file = page_file(path);
  if (file) return *std::move(file);
  return ApiError{.status = 404,
                  .message = fmt::format("the page has no file {}", in_quotes(path)),
                  .code = "not_found"};
}

ApiResult<HttpResponse> Api::openapi(const Call&) const {
  return HttpResponse{.body = std::string(openapi_json())};
}

ApiResult<HttpResponse> Api::tokenize(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(Fields fields, Fields::of(call.body, "", unknown));
  KVICK_TRY_VOID(fields.get_string("model", ""));
  KVICK_TRY(const std::vector<engine::Token> tokens, tokens_of(fields, *call.model->engine));
  KVICK_TRY(const bool with_pieces, fields.get_bool("with_pieces", false));
  fields.ignore_defaults();
  KVICK_TRY_VOID(fields.check_rest());
  Json list = tokens;
  if (with_pieces)
    for (Json& token : list)
      token = piece_json(token.get<engine::Token>(), call.model->engine->tokenizer());
  return json_response({{"tokens", std::move(list)},
                        {"count", tokens.size()},
                        {"max_model_len", call.model->service->context()}});
}

ApiResult<HttpResponse> Api::detokenize(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(Fields fields, Fields::of(call.body, "", unknown));
  KVICK_TRY_VOID(fields.get_string("model", ""));
  const Json* list = fields.find("tokens");
  if (list == nullptr || !list->is_array())
    return bad_field("tokens", "tokens must be a list of token ids");
  KVICK_TRY(const std::vector<engine::Token> tokens, read_tokens(*list, "tokens"));
  KVICK_TRY_VOID(fields.check_rest());
  const text::Tokenizer& tokenizer = call.model->engine->tokenizer();
  const size_t vocab = tokenizer.vocabulary().pieces.size();
  for (const engine::Token token : tokens)
    if (static_cast<size_t>(token) >= vocab)
      return bad_field("tokens", "there is no token {}; the vocabulary ends at {}", token,
                       vocab - 1);
  const std::string text = tokenizer.decode(tokens, true);
  return json_response({{"prompt", text}, {"content", text}});  // vLLM's name and llama-server's
}

}  // namespace kvick::server
