#pragma once
// Turns a request's body into jobs for the engine's service.

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

// Compiles a response_format into a constraint. Error: one sentence why it cannot be enforced.
using MakeConstraint = std::function<base::Result<std::shared_ptr<const text::Constraint>>(
    const Json& response_format)>;

struct PlanContext {
  const engine::Engine& engine;
  const MakeConstraint& constraint;
  const std::function<uint64_t()>& random;  // seeds for requests without one
  bool stop_loops = false;                  // for requests that do not set it
  engine::AdapterUse adapter = {};          // the adapter that "model" names
  uint32_t most_tokens = UINT32_MAX;        // of a sequence: prompt and answer
};

struct Plan {
  std::vector<engine::Job> jobs;  // without on_piece and on_end; empty only if `answer` is set
  std::vector<std::string> echo;  // per job, the text that its answers begin with; empty: none
  uint32_t choices = 1;           // per job
  Tools tools;
  // Null: the answer's text is not parsed, except for tool calls.
  const text::AnswerSyntax* syntax = nullptr;
  bool inside_thoughts = false;  // the prompt ends with the mark that opens thoughts
  bool drops_thoughts = false;
  bool stream = false, include_usage = false;
  bool token_ids = false;  // report token ids, those of the prompts too
  // As in the request; the jobs report as many likeliest tokens as the larger number.
  std::optional<uint32_t> logprobs = {}, prompt_logprobs = {};
  MakeFormat format;  // the form of the API that was called
  // The answer to a request that needs no job; `jobs` is empty then.
  std::optional<HttpResponse> answer = {};
  // Keeps the model loaded. The owner of the jobs holds it until they have ended.
  std::shared_ptr<const void> lease = {};
};

ApiResult<Plan> plan_completion(const CompletionRequest& request, const PlanContext& context);
// Plans answers in OpenAI's form; other APIs replace `format`.
ApiResult<Plan> plan_chat(const ChatRequest& request, const PlanContext& context);

}  // namespace kvick::server
