#pragma once
// Texts to vectors: a job of the engine's service for each, which ends with its embedding. What is
// done with the vectors, and in whose form, is the caller's.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/serving/service.h"
#include "server/request/error.h"
#include "server/request/http.h"

namespace kvick::server {

// Most texts of one request (OpenAI's limit), and most jobs of one request that the service has at
// once, so that a batch leaves room in the queue for others.
inline constexpr size_t kMostTexts = 2048;
inline constexpr size_t kMostTextsAtOnce = 64;

struct TextsToEmbed {
  std::vector<std::vector<engine::Token>> texts;  // at least one, none empty
  std::vector<uint32_t> seconds = {};  // of each, Job::second_text; empty: these are no pairs
  engine::Pooling pooling = engine::Pooling::kLast;
  std::string field;  // of the request that they came from, for errors: "input"
  engine::AdapterUse adapter = {};
  std::shared_ptr<const void> lease = {};  // as Plan::lease
};

struct Embeddings {
  // Of the texts, as wide as the model, not normalised; of pairs that are scored, one number.
  std::vector<std::vector<float>> vectors;
  uint64_t tokens = 0;  // of all texts
};
using EmbeddingsDone = std::function<void(ApiResult<Embeddings>)>;

// Calls `done` once, on a thread for answers, with all vectors or with what is wrong; not if the
// client has gone, which cancels the jobs. On a thread of the background; the service outlives what
// is handed to threads.
void embed(engine::Service& service, const Threads& threads, TextsToEmbed texts,
           const std::shared_ptr<Reply>& reply, EmbeddingsDone done);

}  // namespace kvick::server
