// The routes of Ollama's API.

#include "server/api/api.h"
#include "server/ollama/embed.h"
#include "server/ollama/model_json.h"
#include "server/ollama/ollama_format.h"
#include "server/ollama/ollama_request.h"
#include "server/request/fields.h"

namespace kvick::server {
namespace {

using base::Done;

// The version of Ollama whose API this is: clients check it for supported features. Ollama has
// /v1/responses since this version, and Codex CLI refuses older ones (codex --oss).
constexpr const char* kOllamaVersion = "0.13.4";

// Returns the model's name in a request; `name` is Ollama's old field.
ApiResult<std::string> model_field(Fields& fields) {
  KVICK_TRY(const std::string old, fields.get_string("name", ""));
  KVICK_TRY(std::string name, fields.get_string("model", old));
  if (name.empty()) return bad_field("model", "model is missing");
  return name;
}

Json list_of_models(Json models) {
  Json list = Json::object();
  list["models"] = std::move(models);
  return list;
}

}  // namespace

ApiResult<Plan> Api::ollama_chat(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(OllamaRequest request,
            parse_ollama_chat(call.body, call.model->service->context(), unknown));
  return plan_ollama(std::move(request), plan_context(call),
                     {call.model->name, options_.unix_time()});
}

ApiResult<Plan> Api::ollama_generate(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(OllamaRequest request,
            parse_ollama_generate(call.body, call.model->service->context(), unknown));
  return plan_ollama(std::move(request), plan_context(call),
                     {call.model->name, options_.unix_time()});
}

ApiResult<EmbedPlan> Api::ollama_embed(const Call& call, UnknownFields& unknown) const {
  return plan_ollama_embed(call.body, unknown,
                           {embed_context(call), call.model->service->context(), options_.clock});
}

ApiResult<EmbedPlan> Api::ollama_embedding(const Call& call, UnknownFields& unknown) const {
  return plan_ollama_embedding(
      call.body, unknown, {embed_context(call), call.model->service->context(), options_.clock});
}

OllamaModel Api::ollama_model(const LoadedModel& model) const {
  return {*model.engine, model.name, model.service->context(), began_};
}

OllamaModel Api::ollama_model(const LoadedModel& model, const engine::NamedAdapter& adapter) const {
  return {*model.engine, adapter.name, model.service->context(), began_, model.name};
}

ApiResult<HttpResponse> Api::ollama_tags(const Call&) const {
  Json list = Json::array();
  for (size_t i = 0; i < models_.size(); ++i) {
    const ModelHost::Lease model = models_.look(i);
    list.push_back(model ? tag_json(ollama_model(*model))
                         : absent_tag_json(models_.name(i), models_.bytes(i), began_));
  }
  for (const auto& adapter : adapters())
    list.push_back(tag_json(ollama_model(*models_.look(0), *adapter)));
  return json_response(list_of_models(std::move(list)));
}

ApiResult<HttpResponse> Api::ollama_ps(const Call&) const {
  Json list = Json::array();
  for (const ModelHost::Lease& model : loaded_models())
    list.push_back(running_json(ollama_model(*model)));
  return json_response(list_of_models(std::move(list)));
}

ApiResult<HttpResponse> Api::ollama_version(const Call&) const {
  return json_response({{"version", kOllamaVersion}});
}

ApiResult<HttpResponse> Api::ollama_show(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(Fields fields, Fields::of(call.body, "", unknown));
  KVICK_TRY(const std::string name, model_field(fields));
  fields.ignore({"verbose"});
  KVICK_TRY_VOID(fields.check_rest());
  const engine::AdapterUse use = adapter_of(call);
  return json_response(show_json(use.adapter != nullptr ? ollama_model(*call.model, *use.adapter)
                                                        : ollama_model(*call.model)));
}

// Reports success, because the model exists here already. Other models cannot be pulled.
ApiResult<HttpResponse> Api::ollama_pull(const Call& call, UnknownFields& unknown) const {
  KVICK_TRY(Fields fields, Fields::of(call.body, "", unknown));
  KVICK_TRY(const std::string name, model_field(fields));
  KVICK_TRY(const bool stream, fields.get_bool("stream", true));
  fields.ignore({"insecure"});
  KVICK_TRY_VOID(fields.check_rest());
  HttpResponse response = json_response({{"status", "success"}});
  if (!stream) return response;
  response.type = kJsonLines;
  response.body += '\n';
  return response;
}

}  // namespace kvick::server
