#pragma once
// Ollama's POST /api/embed and the older /api/embeddings.

#include "server/embeddings/embed_plan.h"

namespace kvick::server {

struct OllamaEmbedContext {
  EmbedContext embed;
  uint32_t context = 0;           // limit on the tokens of a text
  std::function<double()> clock;  // in seconds; safe on any thread
};

// Plans /api/embed: several texts, which `truncate` (default: true) cuts to the context.
ApiResult<EmbedPlan> plan_ollama_embed(const Json& body, UnknownFields& unknown,
                                       const OllamaEmbedContext& context);
// Plans /api/embeddings: one text, `prompt`.
ApiResult<EmbedPlan> plan_ollama_embedding(const Json& body, UnknownFields& unknown,
                                           const OllamaEmbedContext& context);

}  // namespace kvick::server
