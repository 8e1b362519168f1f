#include "server/openai/answer_format.h"

#include <cmath>

namespace kvick::server {
namespace {

Json usage_json(const TokenCounts& counts) {
  return {{"prompt_tokens", counts.prompt},
          {"completion_tokens", counts.answer},
          {"total_tokens", counts.prompt + counts.answer},
          {"prompt_tokens_details", {{"cached_tokens", counts.cached}}}};
}

}  // namespace

double finite(float logprob) { return std::isfinite(logprob) ? logprob : -9999.0; }

Json AnswerFormat::object(std::string_view kind, Json choices) const {
  return {{"id", head_.id},
          {"object", kind},
          {"created", head_.created},
          {"model", head_.model},
          {"choices", std::move(choices)}};
}

Json AnswerFormat::whole(const std::vector<ChoiceText>& choices, const TokenCounts& counts) const {
  Json list = Json::array();
  for (const ChoiceText& choice : choices) list.push_back(whole_choice(choice));
  Json answer = object(kind(), std::move(list));
  add_prompt(answer);
  answer["usage"] = usage_json(counts);
  return answer;
}

Json AnswerFormat::chunk(const ChoiceText& text) const {
  Json list = Json::array();
  list.push_back(chunk_choice(text));
  Json answer = object(chunk_kind(), std::move(list));
  if (head_.include_usage) answer["usage"] = nullptr;
  return answer;
}

Json AnswerFormat::usage_chunk(const TokenCounts& counts) const {
  Json answer = object(chunk_kind(), Json::array());
  answer["usage"] = usage_json(counts);
  return answer;
}

}  // namespace kvick::server
