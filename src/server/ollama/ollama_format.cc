#include "server/ollama/ollama_format.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <fmt/chrono.h>
#include <span>

#include "server/openai/openai_format.h"

namespace kvick::server {
namespace {

Json error_line(const ApiError& error) { return {{"error", error.message}}; }

int64_t nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

std::string line(const Json& object) { return to_text(object) + "\n"; }

// Returns the text between an object's braces.
std::string members(const Json& object) {
  const std::string text = to_text(object);
  return text.substr(1, text.size() - 2);
}

// Returns the fields at the beginning of every line and answer.
Json head_json(const OllamaForm& form, int64_t created) {
  return {{"model", form.model}, {"created_at", rfc3339(created)}};
}

Json calls_json(const std::vector<ToolCall>& calls) {
  Json list = Json::array();
  for (const ToolCall& call : calls) {
    auto arguments = parse_json(call.arguments);
    if (!arguments.ok() || !arguments->is_object()) continue;
    Json function = {{"name", call.name}, {"arguments", *std::move(arguments)}};
    Json one = Json::object();
    one["function"] = std::move(function);
    list.push_back(std::move(one));
  }
  return list;
}

// Returns the fields with the model's text.
Json said_json(const OllamaForm& form, const ChoiceText& text) {
  Json out = Json::object();
  if (!form.chat) {
    out["response"] = text.content;
    if (!text.reasoning.empty()) out["thinking"] = text.reasoning;
    return out;
  }
  Json& message = out["message"] = {{"role", "assistant"}, {"content", text.content}};
  if (!text.reasoning.empty()) message["thinking"] = text.reasoning;
  Json calls = calls_json(text.calls);
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  return out;
}

Json end_json(const AnswerEnd& end) {
  const int64_t prompt = nanoseconds(end.prompt_seconds), answer = nanoseconds(end.answer_seconds);
  return {{"done", true},
          {"total_duration", prompt + answer},
          {"load_duration", 0},
          {"prompt_eval_count", end.counts.prompt},
          {"prompt_eval_duration", prompt},
          {"eval_count", end.counts.answer},
          {"eval_duration", answer}};
}

class OllamaFormat final : public AnswerFormat {
 public:
  OllamaFormat(const AnswerHead& head, OllamaForm form, const text::Tokenizer& tokenizer)
      : form_(std::move(form)),
        head_(head_json(form_, head.created)),
        tokenizer_(tokenizer),
        logprobs_(head.logprobs),
        most_top_(head.most_top) {}
  std::string_view prompt_field() const override { return form_.chat ? "messages" : "prompt"; }
  HttpResponse error(const ApiError& error) const override { return ollama_error(error); }

  // The choice also writes why it ended, which only it knows.
  Frame frame(const AnswerEnd& end) override {
    return {.before = fmt::format("{{{},", members(head_)),
            .behind = fmt::format(",{}}}", members(end_json(end)))};
  }
  std::string choice(const ChoiceText& all) override {
    Json said = said_json(form_, all);
    if (logprobs_) said["logprobs"] = logprobs(all);
    said["done_reason"] = reason_of(all);
    return members(said);
  }

  std::string_view stream_type() const override { return kJsonLines; }
  std::string begin(uint32_t /*choice*/) override { return ""; }
  std::string piece(const ChoiceText& added) override {
    if (!added.finish_reason.empty()) reason_ = reason_of(added);
    const bool tokens = logprobs_ && !added.tokens.empty();
    if (added.content.empty() && added.reasoning.empty() && calls_json(added.calls).empty() &&
        !tokens)
      return "";
    Json out = head_;
    out.update(said_json(form_, added));
    if (tokens) out["logprobs"] = logprobs(added);
    out["done"] = false;
    return line(out);
  }
  std::string end(const AnswerEnd& end) override {
    if (end.error) return line(error_line(*end.error));
    Json out = head_;
    out.update(said_json(form_, {}));
    out["done_reason"] = reason_;
    out.update(end_json(end));
    return line(out);
  }

 private:
  // A tool call is not a reason of its own in Ollama's API.
  static std::string reason_of(const ChoiceText& text) {
    return text.finish_reason == "length" ? "length" : "stop";
  }

  Json token_json(const engine::TokenChance& token) const {
    const std::string piece = tokenizer_.piece(token.token, true);
    Json bytes = Json::array();
    for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", piece}, {"logprob", finite(token.logprob)}, {"bytes", std::move(bytes)}};
  }

  // Ollama leaves out an empty list of likeliest tokens.
  Json logprobs(const ChoiceText& text) const {
    Json list = Json::array();
    for (const engine::TokenReport& report : text.tokens) {
      Json token = token_json(report.chosen);
      const size_t most = std::min<size_t>(report.top.size(), most_top_);
      for (const engine::TokenChance& one : std::span(report.top).first(most))
        token["top_logprobs"].push_back(token_json(one));
      list.push_back(std::move(token));
    }
    return list;
  }

  const OllamaForm form_;
  const Json head_;
  const text::Tokenizer& tokenizer_;
  const bool logprobs_;      // the client asked for log probabilities of tokens
  const uint32_t most_top_;  // most likeliest tokens with each of them
  std::string reason_ = "stop";
};

}  // namespace

MakeFormat ollama_format(OllamaForm form, const text::Tokenizer& tokenizer) {
  return [form = std::move(form), &tokenizer](const AnswerHead& head) {
    return std::make_unique<OllamaFormat>(head, form, tokenizer);
  };
}

HttpResponse ollama_idle_answer(const OllamaForm& form, int64_t created, bool unloads,
                                bool stream) {
  Json out = head_json(form, created);
  out.update(said_json(form, {}));
  out["done"] = true;
  out["done_reason"] = unloads ? "unload" : "load";
  if (!stream) return {.body = to_text(out)};
  return {.type = std::string(kJsonLines), .body = line(out)};
}

HttpResponse ollama_error(const ApiError& error) {
  return {.status = error.status, .body = to_text(error_line(error)), .headers = error.headers};
}

std::string rfc3339(int64_t unix_time) {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(static_cast<std::time_t>(unix_time)));
}

}  // namespace kvick::server
