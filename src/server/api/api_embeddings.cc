// Routes that answer with embeddings or scores made from them.

#include "server/api/route.h"

namespace kvick::server {

EmbedContext Api::embed_context(const Call& call) const {
  const engine::AdapterUse use = adapter_of(call);
  return {.engine = *call.model->engine,
          .pooling = options_.pooling,
          .model = use.weights() != nullptr ? use.adapter->name : call.model->name,
          .random = options_.random,
          .unix_time = options_.unix_time};
}

ApiResult<EmbedPlan> Api::embeddings(const Call& call, UnknownFields& unknown) const {
  return plan_embeddings(call.body, unknown, embed_context(call));
}

ApiResult<EmbedPlan> Api::rerank(const Call& call, UnknownFields& unknown) const {
  return plan_rerank(call.body, unknown, embed_context(call));
}

ApiResult<EmbedPlan> Api::score(const Call& call, UnknownFields& unknown) const {
  return plan_score(call.body, unknown, embed_context(call));
}

void Api::answer_embeddings(const Route& route, const Call& call, ApiResult<EmbedPlan> plan,
                            const UnknownFields& unknown) const {
  const std::shared_ptr<Reply> reply = named(call.reply, unknown);
  if (!plan.ok()) return send(route, reply, plan.error());
  if (plan->texts.texts.empty()) return send(route, reply, HttpResponse{.body = plan->answer({})});
  const auto answer = [this, &route, reply,
                       answer = std::move(plan->answer)](ApiResult<Embeddings> embeddings) {
    if (!embeddings.ok()) return send(route, reply, embeddings.error());
    send(route, reply, HttpResponse{.body = answer(*std::move(embeddings))});
  };
  plan->texts.adapter = adapter_of(call);
  note_model(call, plan->texts.adapter);
  plan->texts.lease = call.model;
  embed(*call.model->service, threads_, std::move(plan->texts), reply, answer);
}

}  // namespace kvick::server
