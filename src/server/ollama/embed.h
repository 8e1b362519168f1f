#pragma once
// POST /api/embed, and the older /api/embeddings.

#include "server/embeddings/embed_plan.h"

namespace kvick::server {

struct OllamaEmbedContext {
  EmbedContext embed;
  uint32_t context = 0;           // most tokens of a text
  std::function<double()> clock;  // seconds; on any thread
};

// Several texts, with `truncate` (default: true) cut off behind the context.
ApiResult<EmbedPlan> plan_ollama_embed(const Json& body, UnknownFields& unknown,
                                       const OllamaEmbedContext& context);
// One text, `prompt`.
ApiResult<EmbedPlan> plan_ollama_embedding(const Json& body, UnknownFields& unknown,
                                           const OllamaEmbedContext& context);

}  // namespace kvick::server
