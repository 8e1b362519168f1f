#pragma once
// Requests for embeddings and for scores made from them: from a request's body to texts, and from
// vectors to the body of the answer.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "engine/core/engine.h"
#include "server/embeddings/embed.h"
#include "server/request/json.h"
#include "server/request/unknown_fields.h"

namespace kvick::server {

struct EmbedContext {
  const engine::Engine& engine;
  std::optional<engine::Pooling> pooling;  // the operator's choice, if any
  std::string model;                       // the model's id for clients
  // random: for the ids of answers. unix_time: seconds since 1970.
  std::function<uint64_t()> random;
  std::function<int64_t()> unix_time;
};

struct EmbedPlan {
  TextsToEmbed texts;
  std::function<std::string(Embeddings)> answer;  // returns the answer's JSON; safe on any thread
};

// Returns how to pool hidden states to embeddings. Error: the model scores pairs of texts and has
// no embeddings.
ApiResult<engine::Pooling> embedding_pooling(const EmbedContext& context);

// Plans POST /v1/embeddings of OpenAI's API.
ApiResult<EmbedPlan> plan_embeddings(const Json& body, UnknownFields& unknown,
                                     const EmbedContext& context);
// Plans POST /v1/rerank in the form of Cohere and Jina. Orders documents, best first, by the score
// that the model gives each with the query, or else by the cosine of their embeddings with the
// query's.
ApiResult<EmbedPlan> plan_rerank(const Json& body, UnknownFields& unknown,
                                 const EmbedContext& context);
// Plans POST /score in vLLM's form: scores or cosines of pairs.
ApiResult<EmbedPlan> plan_score(const Json& body, UnknownFields& unknown,
                                const EmbedContext& context);

// Returns a JSON list with the fewest digits that restore the floats: half as long as with doubles.
std::string floats_json(std::span<const float> vector);
// Returns the base64 of the floats, least significant byte first.
std::string base64_of(std::span<const float> vector);

}  // namespace kvick::server
