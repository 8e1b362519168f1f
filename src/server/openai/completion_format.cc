#include <cmath>
#include <map>

#include "server/openai/openai_format.h"
#include "text/unicode/utf8.h"

namespace kvick::server {
namespace {

Json reason_json(const std::string& reason) { return reason.empty() ? Json() : Json(reason); }

size_t characters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(text::decode_utf8(text).bytes);
  return count;
}

class CompletionFormat final : public OpenAiFormat {
 public:
  CompletionFormat(AnswerHead head, const text::Tokenizer& tokenizer)
      : OpenAiFormat(std::move(head), "cmpl", tokenizer) {}
  std::string_view prompt_field() const override { return "prompt"; }

 protected:
  std::optional<Json> first_chunk(uint32_t index) const override {
    if (!token_ids()) return std::nullopt;
    Json answer = chunk({.index = index});
    answer["choices"][0]["prompt_token_ids"] = prompt_of(index);
    return answer;
  }
  std::string_view kind() const override { return "text_completion"; }
  std::string_view chunk_kind() const override { return "text_completion"; }
  Json whole_choice(const ChoiceText& text) const override {
    Json out = chunk_choice(text);
    if (token_ids()) out["prompt_token_ids"] = prompt_of(text.index);
    if (head_.prompt_logprobs) out["prompt_logprobs"] = prompt_logprobs(text);
    return out;
  }
  Json chunk_choice(const ChoiceText& text) const override {
    Json out = {{"index", text.index},
                {"text", text.content},
                {"logprobs", head_.logprobs ? logprobs(text) : Json()},
                {"finish_reason", reason_json(text.finish_reason)}};
    add_own_reason(out, text);
    if (token_ids()) out["token_ids"] = text.token_ids;
    return out;
  }

 private:
  Json logprobs(const ChoiceText& text) const {
    Json tokens = Json::array(), chosen = Json::array(), top = Json::array();
    Json offsets = Json::array();
    const std::span<const engine::TokenReport> all = reports(text);
    size_t unused = 0;
    size_t& offset =
        all.empty() ? unused : offsets_.try_emplace(text.index, text.offset).first->second;
    for (const engine::TokenReport& report : all) {
      const std::string piece = tokenizer_.piece(report.chosen.token, true);
      Json likeliest = Json::object();
      for (const engine::TokenChance& one : top_of(report))
        likeliest[tokenizer_.piece(one.token, true)] = finite(one.logprob);
      tokens.push_back(piece);
      const bool first = std::isnan(report.chosen.logprob);
      chosen.push_back(first ? Json() : Json(finite(report.chosen.logprob)));
      top.push_back(first ? Json() : std::move(likeliest));
      offsets.push_back(offset);
      offset += characters(piece);
    }
    return {{"tokens", tokens},
            {"token_logprobs", chosen},
            {"top_logprobs", top},
            {"text_offset", offsets}};
  }

  // By choice: where the tokens that were written end. Not where the text ends: in a stream it may
  // come after its tokens, held back because a stop text may begin there.
  mutable std::map<uint32_t, size_t> offsets_;
};

}  // namespace

MakeFormat completion_format(const text::Tokenizer& tokenizer) {
  return [&tokenizer](AnswerHead head) {
    return std::make_unique<CompletionFormat>(std::move(head), tokenizer);
  };
}

}  // namespace kvick::server
