#include "server/infill/infill_format.h"

#include "server/net/sse.h"
#include "server/request/json.h"

namespace kvick::server {
namespace {

constexpr std::string_view kPrefix = "input_prefix";

class InfillFormat final : public AnswerFormat {
 public:
  // prompt_field: the request's field with the prompt, for errors.
  InfillFormat(AnswerHead head, std::string_view prompt_field, bool textless)
      : head_(std::move(head)), prompt_field_(prompt_field), textless_(textless) {}

  std::string_view prompt_field() const override { return prompt_field_; }

  Frame frame(const AnswerEnd& end) override {
    end_ = end;
    return {};
  }
  std::string choice(const ChoiceText& all) override {
    return to_text(last(textless_ ? "" : all.content, all));
  }

  std::string begin(uint32_t /*choice*/) override { return ""; }
  std::string piece(const ChoiceText& added) override {
    if (!added.finish_reason.empty()) reason_ = added;
    if (textless_ || added.content.empty()) return "";
    return event({{"index", 0}, {"content", added.content}, {"stop", false}});
  }
  std::string end(const AnswerEnd& end) override {
    if (end.error) return event(error_json(*end.error));
    end_ = end;
    return event(last("", reason_));
  }

 private:
  static std::string event(const Json& json) { return sse_event(to_text(json)); }

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
  const bool textless_;
  AnswerEnd end_;
  ChoiceText reason_;  // in a stream: the piece that ended the answer
};

}  // namespace

std::unique_ptr<AnswerFormat> infill_format(AnswerHead head) {
  return std::make_unique<InfillFormat>(std::move(head), kPrefix, false);
}

std::unique_ptr<AnswerFormat> textless_infill_format(AnswerHead head) {
  return std::make_unique<InfillFormat>(std::move(head), kPrefix, true);
}

MakeFormat llama_completion_format(bool textless) {
  return [textless](AnswerHead head) {
    return std::make_unique<InfillFormat>(std::move(head), "prompt", textless);
  };
}

}  // namespace kvick::server
