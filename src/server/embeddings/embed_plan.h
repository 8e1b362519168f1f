#pragma once
// Requests for embeddings and for what is made of them: from a body to texts, and from vectors to
// the body of an answer.

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
  std::optional<engine::Pooling> pooling;  // of whoever started the server
  std::string model;                       // that clients see
  // What answers are told apart by, and when they were asked for in seconds since 1970.
  std::function<uint64_t()> random;
  std::function<int64_t()> unix_time;
};

struct EmbedPlan {
  TextsToEmbed texts;
  std::function<std::string(Embeddings)> answer;  // its JSON; on any thread
};

// Of embeddings. Error: the model scores pairs of texts and embeds none.
ApiResult<engine::Pooling> embedding_pooling(const EmbedContext& context);

// POST /v1/embeddings of OpenAI's API.
ApiResult<EmbedPlan> plan_embeddings(const Json& body, UnknownFields& unknown,
                                     const EmbedContext& context);
// POST /v1/rerank, as Cohere and Jina have it: documents by the score that the model gives them
// with the query, else by the cosine of their embedding and the query's, the best first.
ApiResult<EmbedPlan> plan_rerank(const Json& body, UnknownFields& unknown,
                                 const EmbedContext& context);
// POST /score, as vLLM has it: scores or cosines of pairs.
ApiResult<EmbedPlan> plan_score(const Json& body, UnknownFields& unknown,
                                const EmbedContext& context);

// A JSON list, in the fewest digits that give the floats back: half of what doubles would take.
std::string floats_json(std::span<const float> vector);
// Of the vector's floats, the least significant byte of each first.
std::string base64_of(std::span<const float> vector);

}  // namespace kvick::server
