#pragma once
// From a request's body to jobs for the engine's service.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/engine.h"
#include "engine/serving/service.h"
#include "server/answer/answer_format.h"
#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"

namespace kvick::server {

// What a response_format allows. Error: it is none that can be enforced, in one sentence.
using MakeConstraint = std::function<base::Result<std::shared_ptr<const text::Constraint>>(
    const Json& response_format)>;

struct PlanContext {
  const engine::Engine& engine;
  const MakeConstraint& constraint;
  const std::function<uint64_t()>& random;  // seeds of those who give none
  bool stop_loops = false;                  // of requests that do not say
  engine::AdapterUse adapter = {};          // that the request names in place of the model
};

struct Plan {
  std::vector<engine::Job> jobs;  // without on_piece and on_end; at least one, or answer
  std::vector<std::string> echo;  // per job, what its answers begin with; empty: nothing
  uint32_t choices = 1;           // of each job
  Tools tools;
  // Null: the text of answers is not taken apart, but for calls of tools.
  const text::AnswerSyntax* syntax = nullptr;
  bool inside_thoughts = false;  // the prompt ends with the mark that opens them
  bool drops_thoughts = false;
  bool stream = false, include_usage = false;
  bool token_ids = false;  // the answer has them, the prompts' too
  MakeFormat format;       // of the API that was asked
  // The answer to a request that needs no job; then there is none.
  std::optional<HttpResponse> answer = {};
  // Keeps the model loaded: held by whoever has the jobs, until they have ended.
  std::shared_ptr<const void> lease = {};
};

ApiResult<Plan> plan_completion(const CompletionRequest& request, const PlanContext& context);
// Its answers are written in OpenAI's form; another API puts its own in place of that.
ApiResult<Plan> plan_chat(const ChatRequest& request, const PlanContext& context);

}  // namespace kvick::server
