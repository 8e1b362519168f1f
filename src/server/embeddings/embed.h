#pragma once
// Turns texts into vectors. Each text is one job of the engine's service, which ends with its
// embedding. The caller decides what to do with the vectors and how to format them.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/serving/service.h"
#include "server/request/error.h"
#include "server/request/http.h"

namespace kvick::server {

// kMostTexts: limit on the texts of one request (OpenAI's limit). kMostTextsAtOnce: limit on the
// jobs of one request that the service has at once, so that a batch leaves room in the queue for
// others.
inline constexpr size_t kMostTexts = 2048;
inline constexpr size_t kMostTextsAtOnce = 64;

struct TextsToEmbed {
  std::vector<std::vector<engine::Token>> texts;  // at least one, none empty
  std::vector<uint32_t> seconds = {};  // per text, Job::second_text; empty: the texts are no pairs
  engine::Pooling pooling = engine::Pooling::kLast;
  std::string field;  // the request's field for errors: "input"
  engine::AdapterUse adapter = {};
  std::shared_ptr<const void> lease = {};  // see Plan::lease
};

struct Embeddings {
  // One per text, as wide as the model, not normalised. For a scored pair: one number.
  std::vector<std::vector<float>> vectors;
  uint64_t tokens = 0;  // sum over all texts
};
using EmbeddingsDone = std::function<void(ApiResult<Embeddings>)>;

// Submits the jobs; call it on a background thread. Calls `done` once, on an answers thread, with
// all vectors or an error. If the client leaves, the jobs are cancelled and `done` is not called.
// The service must outlive the tasks that this posts to threads.
void embed(engine::Service& service, const Threads& threads, TextsToEmbed texts,
           const std::shared_ptr<Reply>& reply, EmbeddingsDone done);

}  // namespace kvick::server
