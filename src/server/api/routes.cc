// The table of routes.

#include "server/anthropic/anthropic_error.h"
#include "server/api/route.h"
#include "server/ollama/ollama_format.h"

namespace kvick::server {

const Api::Route Api::kRoutes[] = {
    {.name = {"GET", "/health"}, .answer = &Api::health, .open = true, .at_once = true},
    {.name = {"GET", "/"}, .answer = &Api::page, .open = true, .at_once = true},
    {.name = {"GET", "/operator"}, .answer = &Api::page, .open = true, .at_once = true},
    {.name = {"GET", "/page/{file}"}, .answer = &Api::page, .open = true, .at_once = true},
    {.name = {"GET", "/openapi.json"}, .answer = &Api::openapi, .at_once = true},
    {.name = {"GET", "/metrics"}, .answer = &Api::metrics, .at_once = true},
    {.name = {"GET", "/kv"}, .answer = &Api::cache},
    {.name = {"GET", "/debug/requests"}, .answer = &Api::debug_requests},
    {.name = {"GET", "/v1/models"}, .answer = &Api::models, .at_once = true},
    {.name = {"GET", "/v1/models/{id}"}, .answer = &Api::model, .at_once = true},
    {.name = {"GET", "/lora-adapters"}, .answer = &Api::lora_adapters, .at_once = true},
    {.name = {"GET", "/props"}, .answer = &Api::props},
    {.name = {"GET", "/slots"}, .answer = &Api::slots, .at_once = true},
    {.name = {"POST", "/v1/completions"}, .plan = &Api::complete},
    {.name = {"POST", "/v1/chat/completions"}, .plan = &Api::chat},
    {.name = {"POST", "/v1/responses"}, .plan = &Api::respond},
    {.name = {"POST", "/v1/responses/input_tokens"}, .read = &Api::count_input},
    {.name = {"GET", "/v1/responses/{id}/input_items"}, .answer = &Api::response_items},
    {.name = {"GET", "/v1/responses/{id}"}, .answer = &Api::response},
    {.name = {"DELETE", "/v1/responses/{id}"}, .answer = &Api::delete_response},
    {.name = {"POST", "/infill"}, .plan = &Api::infill},
    {.name = {"POST", "/completion"}, .plan = &Api::llama_completion},
    {.name = {"POST", "/v1/embeddings"}, .embed = &Api::embeddings},
    {.name = {"POST", "/v1/rerank"}, .embed = &Api::rerank},
    {.name = {"POST", "/rerank"}, .embed = &Api::rerank},
    {.name = {"POST", "/v2/rerank"}, .embed = &Api::rerank},
    {.name = {"POST", "/v1/reranking"}, .embed = &Api::rerank},
    {.name = {"POST", "/reranking"}, .embed = &Api::rerank},
    {.name = {"POST", "/v1/score"}, .embed = &Api::score},
    {.name = {"POST", "/score"}, .embed = &Api::score},
    {.name = {"POST", "/v1/messages"},
     .plan = &Api::anthropic_messages,
     .error = anthropic_error_response},
    {.name = {"POST", "/v1/messages/count_tokens"},
     .read = &Api::anthropic_count,
     .error = anthropic_error_response},
    {.name = {"POST", "/tokenize"}, .read = &Api::tokenize},
    {.name = {"POST", "/detokenize"}, .read = &Api::detokenize},
    {.name = {"POST", "/api/chat"},
     .plan = &Api::ollama_chat,
     .error = ollama_error,
     .any_type = true,
     .ollama = true},
    {.name = {"POST", "/api/generate"},
     .plan = &Api::ollama_generate,
     .error = ollama_error,
     .any_type = true,
     .ollama = true},
    {.name = {"POST", "/api/embed"},
     .embed = &Api::ollama_embed,
     .error = ollama_error,
     .any_type = true,
     .ollama = true},
    {.name = {"POST", "/api/embeddings"},
     .embed = &Api::ollama_embedding,
     .error = ollama_error,
     .any_type = true,
     .ollama = true},
    {.name = {"POST", "/api/show"},
     .read = &Api::ollama_show,
     .error = ollama_error,
     .any_type = true,
     .ollama = true},
    {.name = {"POST", "/api/pull"},
     .read = &Api::ollama_pull,
     .error = ollama_error,
     .any_type = true,
     .ollama = true,
     .names_model = true},
    {.name = {"GET", "/api/tags"}, .answer = &Api::ollama_tags, .error = ollama_error},
    {.name = {"GET", "/api/ps"}, .answer = &Api::ollama_ps, .error = ollama_error},
    {.name = {"GET", "/api/version"},
     .answer = &Api::ollama_version,
     .error = ollama_error,
     .at_once = true},
    {.name = {"GET", "/server_info"}, .answer = &Api::server_info, .at_once = true},
    {.name = {"GET", "/get_server_info"}, .answer = &Api::server_info, .at_once = true},
    {.name = {"GET", "/model_info"}, .answer = &Api::model_info, .at_once = true},
    {.name = {"GET", "/get_model_info"}, .answer = &Api::model_info, .at_once = true},
    {.name = {"GET", "/get_load"}, .answer = &Api::load},
    {.name = {"GET", "/v1/loads"}, .answer = &Api::loads},
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

HttpResponse error_at(std::string_view path, const ApiError& error) {
  // A client whose base URL ends with a slash asks for //api/chat.
  while (path.starts_with("//")) path.remove_prefix(1);
  if (path.starts_with("/api/")) return ollama_error(error);
  if (path.starts_with("/v1/messages")) return anthropic_error_response(error);
  return error_response(error);
}

}  // namespace kvick::server
