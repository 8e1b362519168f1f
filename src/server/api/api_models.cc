// Lists the models, finds the one that a request names, and reports their state.

#include <filesystem>

#include "engine/core/adapters.h"
#include "server/api/route.h"
#include "server/ollama/ollama_format.h"
#include "server/ops/cache_json.h"
#include "server/ops/metrics_text.h"
#include "server/ops/model_samples.h"
#include "server/ops/vllm_metrics.h"

namespace kvick::server {
namespace {

// The SGLang gateway sends this name for requests without a model.
constexpr std::string_view kSglangPlaceholder = "unknown";

// Returns the field, or "" if it is missing or no string, which the API's own reader refuses.
std::string text_field(const Json& body, const char* name) {
  if (!body.is_object()) return "";
  const auto field = body.find(name);
  return field != body.end() && field->is_string() ? field->get<std::string>() : "";
}

// Returns the name of the model in a request's body. Old clients of Ollama call the field `name`.
std::string name_in(const Json& body, bool ollama) {
  const std::string name = text_field(body, "model");
  return ollama && name.empty() ? text_field(body, "name") : name;
}

// Returns the adapter of this name, or null. Ollama's lists add ":latest" to names, and clients use
// these names with other APIs too.
std::shared_ptr<const engine::NamedAdapter> adapter_named(const engine::Adapters& adapters,
                                                          std::string_view name) {
  if (const auto adapter = engine::find_adapter(adapters, name)) return adapter;
  for (const auto& adapter : adapters)
    if (same_model(adapter->name, name)) return adapter;
  return nullptr;
}

std::string names_of(const ModelHost& models, const engine::Adapters& adapters) {
  std::string names;
  for (size_t i = 0; i < models.size(); ++i)
    names += (i == 0 ? "" : ", ") + in_quotes(models.name(i));
  for (const auto& adapter : adapters) names += ", " + in_quotes(adapter->name);
  return names;
}

// Adds the context by the names of vLLM, of OpenRouter and LM Studio, of Anthropic, and of
// llama-server: clients look for one of them and otherwise guess.
void add_context(const LoadedModel& model, Json& json) {
  const uint32_t context = model.service->context();
  json["max_model_len"] = context;
  json["context_length"] = context;
  json["max_input_tokens"] = context;
  json["meta"] = {{"n_ctx", context}, {"n_ctx_train", model.engine->model().config().context}};
}

}  // namespace

std::optional<size_t> Api::find_model(std::string_view name) const {
  for (size_t i = 0; i < models_.size(); ++i)
    if (models_.name(i) == name) return i;
  for (size_t i = 0; i < models_.size(); ++i)
    if (same_model(name, models_.name(i))) return i;
  return std::nullopt;
}

// Returns the model that a request names; the first if it names none.
ApiResult<size_t> Api::model_of(const Route& route, const Json& body) const {
  const std::string name = name_in(body, route.ollama);
  if (const auto found = find_model(name)) return *found;
  if (adapter_named(adapters(), name) != nullptr) return size_t{0};
  const bool none = name.empty() || (!route.ollama && name == kSglangPlaceholder);
  if (none || options_.any_model) return size_t{0};
  return route.ollama ? no_ollama_model(name) : no_model(name);
}

ApiError Api::no_model(const std::string& name) const {
  return {.status = 404,
          .message = fmt::format("the model {} is not here; this server has {}", in_quotes(name),
                                 names_of(models_, adapters())),
          .param = "model",
          .code = "model_not_found"};
}

ApiError Api::no_ollama_model(const std::string& name) const {
  return {.status = 404,
          .message = fmt::format("model {} not found: this server has {}; to serve another one, "
                                 "start kvick serve -m MODEL --name NAME",
                                 in_quotes(name), names_of(models_, adapters()))};
}

std::vector<ModelHost::Lease> Api::loaded_models() const {
  std::vector<ModelHost::Lease> loaded;
  for (size_t i = 0; i < models_.size(); ++i)
    if (ModelHost::Lease model = models_.look(i)) loaded.push_back(std::move(model));
  return loaded;
}

// Omits the context of a model that is not loaded, because it is unknown. OpenAI's and Anthropic's
// clients ask by the same path, and each ignores the other's fields.
Json Api::model_json(size_t model) const {
  const ModelHost::Lease loaded = models_.look(model);
  Json json = {
      {"id", models_.name(model)},    {"object", "model"}, {"created", began_},
      {"owned_by", "kvick"},          {"type", "model"},   {"display_name", models_.name(model)},
      {"created_at", rfc3339(began_)}};
  if (loaded) add_context(*loaded, json);
  if (models_.size() > 1) json["loaded"] = loaded != nullptr;
  return json;
}

ApiResult<HttpResponse> Api::models(const Call&) const {
  Json list = Json::array();
  for (size_t i = 0; i < models_.size(); ++i) list.push_back(model_json(i));
  for (const auto& adapter : adapters()) list.push_back(adapter_json(*adapter));
  const Json first = list.front()["id"], last = list.back()["id"];
  return json_response({{"object", "list"},
                        {"data", std::move(list)},
                        {"has_more", false},
                        {"first_id", first},
                        {"last_id", last}});
}

ApiResult<HttpResponse> Api::model(const Call& call) const {
  if (const auto found = find_model(call.argument)) return json_response(model_json(*found));
  if (const auto adapter = adapter_named(adapters(), call.argument))
    return json_response(adapter_json(*adapter));
  return no_model(call.argument);
}

engine::Adapters Api::adapters() const {
  const ModelHost::Lease loaded = models_.size() == 1 ? models_.look(0) : nullptr;
  return loaded ? loaded->engine->adapters() : engine::Adapters();
}

engine::AdapterUse Api::adapter_of(const Call& call) const {
  auto adapter = adapter_named(call.model->engine->adapters(), name_in(call.body, call.ollama));
  const float scale = adapter != nullptr ? adapter->scale : 1;
  return {.adapter = std::move(adapter), .scale = scale};
}

// vLLM lists adapters as models whose parent is the served model.
Json Api::adapter_json(const engine::NamedAdapter& adapter) const {
  Json json = model_json(0);
  json["id"] = adapter.name;
  json["display_name"] = adapter.name;
  json["parent"] = models_.name(0);
  return json;
}

// Lists adapters in llama-server's form, with only the names of their files: paths of this machine
// are not revealed.
ApiResult<HttpResponse> Api::lora_adapters(const Call&) const {
  Json list = Json::array();
  for (const auto& adapter : adapters())
    list.push_back({{"id", list.size()},
                    {"name", adapter->name},
                    {"path", std::filesystem::path(adapter->path).filename().string()},
                    {"scale", adapter->scale}});
  return json_response(list);
}

engine::Metrics Api::all_metrics() const {
  engine::Metrics all;
  for (const ModelHost::Lease& model : loaded_models()) all.add(model->service->metrics());
  return all;
}

ApiResult<HttpResponse> Api::metrics(const Call& call) const {
  std::vector<ModelSamples> samples;
  for (const ModelHost::Lease& model : loaded_models()) {
    const engine::Metrics metrics = model->service->metrics();
    samples.push_back(
        {.model = model->name,
         .text = service_metrics_text(metrics, model->service->instances()) +
                 vllm_metrics_text(metrics, model->name) +
                 vllm_adapters_text(model->engine->adapters(), options_.unix_time())});
  }
  std::string text = network_metrics_text(call.network);
  if (options_.book != nullptr) text += watch_metrics_text(options_.book->counts());
  if (models_.size() > 1)
    text += merged_samples(samples);
  else if (!samples.empty())
    text += samples.front().text;
  return HttpResponse{.type = kMetricsType, .body = std::move(text)};
}

ApiResult<HttpResponse> Api::cache(const Call&) const {
  const std::vector<ModelHost::Lease> loaded = loaded_models();
  if (models_.size() == 1 && !loaded.empty())
    return json_response(cache_json(loaded.front()->service->cache()));
  std::vector<ModelCache> caches;
  for (const ModelHost::Lease& model : loaded)
    caches.push_back({.model = model->name, .cache = model->service->cache()});
  return json_response(caches_json(caches));
}

}  // namespace kvick::server
