#include "server/openai/openai_format.h"

#include <algorithm>
#include <cmath>

#include "server/net/sse.h"
#include "server/openai/kv_transfer.h"

namespace kvick::server {
namespace {

Json usage_json(const TokenCounts& counts) {
  Json details = {{"cached_tokens", counts.cached}};
  if (counts.moved > 0) details["moved_tokens"] = counts.moved;
  return {{"prompt_tokens", counts.prompt},
          {"completion_tokens", counts.answer},
          {"total_tokens", counts.prompt + counts.answer},
          {"prompt_tokens_details", std::move(details)}};
}

}  // namespace

void add_own_reason(Json& choice, const ChoiceText& text) {
  if (text.finish == engine::Finish::kLoop) choice["kvick_finish"] = "loop";
}

double finite(float logprob) { return std::isfinite(logprob) ? logprob : -9999.0; }

OpenAiFormat::OpenAiFormat(AnswerHead head, std::string_view id, const text::Tokenizer& tokenizer)
    : head_(std::move(head)),
      id_(fmt::format("{}-{:016x}", id, head_.number)),
      tokenizer_(tokenizer) {}

Json OpenAiFormat::object(std::string_view kind, Json choices) const {
  return {{"id", id_},
          {"object", kind},
          {"created", head_.created},
          {"model", head_.model},
          {"choices", std::move(choices)}};
}

AnswerFormat::Frame OpenAiFormat::frame(const AnswerEnd& end) {
  Json answer = object(kind(), Json::array());
  add_prompt(answer);
  if (head_.prompt_logprobs && end.first != nullptr) add_prompt_logprobs(answer, *end.first);
  answer["usage"] = usage_json(end.counts);
  if (end.given) answer["kv_transfer_params"] = kv_transfer_json(*end.given);
  // Splits an answer at its empty list, into which the choices are written one by one.
  constexpr std::string_view kList = "\"choices\":[";
  const std::string text = to_text(answer);
  const size_t at = text.find(kList);
  KVICK_CHECK(at != std::string::npos, "an answer without choices: {}", text);
  return {.before = text.substr(0, at + kList.size()), .behind = text.substr(at + kList.size())};
}

std::span<const engine::TokenReport> OpenAiFormat::reports(const ChoiceText& text) const {
  return std::span(text.tokens).subspan(head_.echo ? 0 : text.prompt_reports);
}

std::span<const engine::TokenChance> OpenAiFormat::top_of(const engine::TokenReport& report) const {
  return std::span(report.top).first(std::min<size_t>(report.top.size(), head_.most_top));
}

Json OpenAiFormat::prompt_logprobs(const ChoiceText& text) const {
  const auto token_json = [&](const engine::TokenChance& token, Json rank) {
    return Json({{"logprob", finite(token.logprob)},
                 {"rank", std::move(rank)},
                 {"decoded_token", tokenizer_.piece(token.token, true)}});
  };
  Json list = Json::array();
  for (const engine::TokenReport& report : std::span(text.tokens).first(text.prompt_reports)) {
    if (std::isnan(report.chosen.logprob)) {  // nothing stands before the first token
      list.push_back(nullptr);
      continue;
    }
    Json tokens = Json::object();
    tokens[fmt::format("{}", report.chosen.token)] = token_json(report.chosen, nullptr);
    for (size_t i = 0; i < report.top.size(); ++i) {
      const engine::TokenChance& one = report.top[i];
      if (one.token == report.chosen.token)
        tokens[fmt::format("{}", one.token)]["rank"] = i + 1;
      else if (i < *head_.prompt_logprobs)
        tokens[fmt::format("{}", one.token)] = token_json(one, i + 1);
    }
    list.push_back(std::move(tokens));
  }
  return list;
}

std::string OpenAiFormat::choice(const ChoiceText& all) { return to_text(whole_choice(all)); }

Json OpenAiFormat::chunk(const ChoiceText& text) const {
  Json list = Json::array();
  list.push_back(chunk_choice(text));
  Json answer = object(chunk_kind(), std::move(list));
  if (head_.include_usage) answer["usage"] = nullptr;
  return answer;
}

std::string OpenAiFormat::begin(uint32_t choice) {
  const std::optional<Json> first = first_chunk(choice);
  return first ? sse_event(to_text(*first)) : "";
}

// Sends the reason for the end in a chunk of its own after calls: OpenAI's clients notice the end
// of a call only then.
std::string OpenAiFormat::piece(const ChoiceText& added) {
  if (added.calls.empty() || added.finish_reason.empty()) return sse_event(to_text(chunk(added)));
  ChoiceText calls = added, end = {.index = added.index};
  std::swap(calls.finish_reason, end.finish_reason);
  std::swap(calls.finish, end.finish);
  return sse_event(to_text(chunk(calls))) + sse_event(to_text(chunk(end)));
}

std::string OpenAiFormat::end(const AnswerEnd& end) {
  std::string out;
  if (end.error) out += sse_event(to_text(error_json(*end.error)));
  if (head_.include_usage) {
    Json usage = object(chunk_kind(), Json::array());
    usage["usage"] = usage_json(end.counts);
    out += sse_event(to_text(usage));
  }
  return out.append(kSseDone);
}

}  // namespace kvick::server
