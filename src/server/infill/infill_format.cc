#include "server/infill/infill_format.h"

#include "server/net/sse.h"
#include "server/openai/openai_format.h"
#include "server/request/json.h"

namespace kvick::server {
namespace {

constexpr std::string_view kPrefix = "input_prefix";

class InfillFormat final : public AnswerFormat {
 public:
  // prompt_field: the request's field with the prompt, for errors.
  InfillFormat(AnswerHead head, std::string_view prompt_field, const text::Tokenizer& tokenizer,
               bool textless)
      : head_(std::move(head)),
        prompt_field_(prompt_field),
        tokenizer_(tokenizer),
        textless_(textless) {}

  std::string_view prompt_field() const override { return prompt_field_; }

  Frame frame(const AnswerEnd& end) override {
    end_ = end;
    return {};
  }
  std::string choice(const ChoiceText& all) override {
    return to_text(with_tokens(last(textless_ ? "" : all.content, all), all));
  }

  std::string begin(uint32_t /*choice*/) override { return ""; }
  std::string piece(const ChoiceText& added) override {
    if (!added.finish_reason.empty()) reason_ = added;
    if (textless_ || (added.content.empty() && added.tokens.empty() && added.token_ids.empty()))
      return "";
    return event(with_tokens({{"index", 0}, {"content", added.content}, {"stop", false}}, added));
  }
  std::string end(const AnswerEnd& end) override {
    if (end.error) return event(error_json(*end.error));
    end_ = end;
    return event(last("", reason_));
  }

 private:
  static std::string event(const Json& json) { return sse_event(to_text(json)); }

  Json token_json(const engine::TokenChance& token) const {
    const std::string piece = tokenizer_.piece(token.token, true);
    Json bytes = Json::array();
    for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
    return {{"id", token.token},
            {"token", piece},
            {"bytes", std::move(bytes)},
            {"logprob", finite(token.logprob)}};
  }

  // Adds what return_tokens and n_probs ask for.
  Json with_tokens(Json json, const ChoiceText& text) const {
    if (textless_) return json;
    if (!head_.prompts.empty()) json["tokens"] = text.token_ids;
    if (!head_.logprobs) return json;
    Json list = Json::array();
    for (const engine::TokenReport& report : text.tokens) {
      Json token = token_json(report.chosen);
      token["top_logprobs"] = Json::array();
      for (const engine::TokenChance& one : report.top)
        token["top_logprobs"].push_back(token_json(one));
      list.push_back(std::move(token));
    }
    json["completion_probabilities"] = std::move(list);
    return json;
  }

  // Returns the last object of an answer.
  Json last(const std::string& content, const ChoiceText& ended) const {
    const bool limit = textless_ || ended.finish_reason == "length";
    const char* const why = limit ? "limit" : ended.stop.empty() ? "eos" : "word";
    return {{"index", 0},
            {"content", content},
            {"stop", true},
            {"stop_type", why},
            {"stopping_word", ended.stop},
            {"model", head_.model},
            {"tokens_predicted", textless_ ? 0 : end_.counts.answer},
            {"tokens_evaluated", end_.counts.prompt},
            {"tokens_cached", end_.counts.cached},
            {"truncated", false}};
  }

  AnswerHead head_;
  const std::string_view prompt_field_;
  const text::Tokenizer& tokenizer_;
  const bool textless_;
  AnswerEnd end_;
  ChoiceText reason_;  // in a stream: the piece that ended the answer
};

}  // namespace

MakeFormat infill_format(const text::Tokenizer& tokenizer, bool textless) {
  return [&tokenizer, textless](AnswerHead head) {
    return std::make_unique<InfillFormat>(std::move(head), kPrefix, tokenizer, textless);
  };
}

MakeFormat llama_completion_format(const text::Tokenizer& tokenizer, bool textless) {
  return [&tokenizer, textless](AnswerHead head) {
    return std::make_unique<InfillFormat>(std::move(head), "prompt", tokenizer, textless);
  };
}

}  // namespace kvick::server
