#include "server/openai/openai_format.h"

namespace kvick::server {
namespace {

// Returns the id of a call: nine letters and digits, because Mistral's templates refuse other ids
// when the client sends them back.
std::string call_id(std::string_view answer, uint32_t choice, size_t place) {
  constexpr std::string_view kDigits =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  uint64_t hash = 0xCBF29CE484222325;  // FNV-1a, mixed by the last two steps of MurmurHash3
  for (const char c : fmt::format("{}_{}_{}", answer, choice, place))
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCD;
  hash ^= hash >> 33;
  std::string id;
  for (; id.size() < 9; hash /= kDigits.size()) id += kDigits[hash % kDigits.size()];
  return id;
}

Json reason_json(const std::string& reason) { return reason.empty() ? Json() : Json(reason); }

class ChatFormat final : public OpenAiFormat {
 public:
  ChatFormat(AnswerHead head, const text::Tokenizer& tokenizer)
      : OpenAiFormat(std::move(head), "chatcmpl", tokenizer) {}
  std::string_view prompt_field() const override { return "messages"; }

 protected:
  std::optional<Json> first_chunk(uint32_t index) const override {
    Json list = Json::array();
    list.push_back(choice_json(index, "delta", {{"role", "assistant"}, {"content", ""}}, ""));
    Json answer = object(chunk_kind(), std::move(list));
    add_prompt(answer);
    if (head_.include_usage) answer["usage"] = nullptr;
    return answer;
  }
  std::string_view kind() const override { return "chat.completion"; }
  std::string_view chunk_kind() const override { return "chat.completion.chunk"; }

  Json whole_choice(const ChoiceText& text) const override {
    Json message = {{"role", "assistant"}, {"content", text.content}};
    if (!text.reasoning.empty()) message["reasoning_content"] = text.reasoning;
    if (!text.calls.empty() && text.content.empty()) message["content"] = nullptr;
    if (!text.calls.empty()) message["tool_calls"] = calls(text, false);
    Json out = choice_json(text.index, "message", std::move(message), text.finish_reason);
    out["logprobs"] = head_.logprobs ? logprobs(text) : Json();
    add_own_reason(out, text);
    if (token_ids()) out["token_ids"] = text.token_ids;
    return out;
  }
  // vLLM puts the prompt's tokens beside the choices.
  void add_prompt(Json& answer) const override {
    if (token_ids()) answer["prompt_token_ids"] = prompt_of(0);
  }
  void add_prompt_logprobs(Json& answer, const ChoiceText& first) const override {
    answer["prompt_logprobs"] = prompt_logprobs(first);
  }
  Json chunk_choice(const ChoiceText& text) const override {
    Json delta = Json::object();
    if (!text.reasoning.empty()) delta["reasoning_content"] = text.reasoning;
    if (!text.content.empty()) delta["content"] = text.content;
    if (!text.calls.empty()) delta["tool_calls"] = calls(text, true);
    Json out = choice_json(text.index, "delta", std::move(delta), text.finish_reason);
    out["logprobs"] = head_.logprobs && !text.tokens.empty() ? logprobs(text) : Json();
    add_own_reason(out, text);
    if (token_ids()) out["token_ids"] = text.token_ids;
    return out;
  }

 private:
  static Json choice_json(uint32_t index, const char* part, Json content,
                          const std::string& reason) {
    return {{"index", index},
            {part, std::move(content)},
            {"logprobs", nullptr},
            {"finish_reason", reason_json(reason)}};
  }

  // numbered: with the calls' indices, which only chunks have.
  Json calls(const ChoiceText& text, bool numbered) const {
    Json list = Json::array();
    for (size_t i = 0; i < text.calls.size(); ++i) {
      const size_t place = text.first_call + i;
      Json call = numbered ? Json({{"index", place}}) : Json::object();
      call["id"] = call_id(id_, text.index, place);
      call["type"] = "function";
      call["function"] = {{"name", text.calls[i].name}, {"arguments", text.calls[i].arguments}};
      list.push_back(std::move(call));
    }
    return list;
  }

  Json token_json(const engine::TokenChance& token) const {
    const std::string piece = tokenizer_.piece(token.token, true);
    Json bytes = Json::array();
    for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
    return {{"token", piece}, {"logprob", finite(token.logprob)}, {"bytes", std::move(bytes)}};
  }

  Json logprobs(const ChoiceText& text) const {
    Json content = Json::array();
    for (const engine::TokenReport& report : reports(text)) {
      Json token = token_json(report.chosen);
      token["top_logprobs"] = Json::array();
      for (const engine::TokenChance& one : top_of(report))
        token["top_logprobs"].push_back(token_json(one));
      content.push_back(std::move(token));
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
};

}  // namespace

MakeFormat chat_format(const text::Tokenizer& tokenizer) {
  return [&tokenizer](AnswerHead head) {
    return std::make_unique<ChatFormat>(std::move(head), tokenizer);
  };
}

}  // namespace kvick::server
