#pragma once
// Renders a chat template over messages with made-up words, so that everything around these words
// must come from the template.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/template/chat_template.h"

namespace kvick::text {

class Probe {
 public:
  using Json = nlohmann::ordered_json;

  static constexpr std::string_view kName = "NAMEQX", kKey = "KEYQX", kValue = "VALUEQX",
                                    kSecondKey = "KEYQZ", kSecondValue = "VALUEQZ",
                                    kSecondName = "NAMEQZ", kThought = "THOUGHTQX",
                                    kText = "TEXTQX", kResult = "RESULTQX";

  // Both outlive it.
  Probe(const ChatTemplate& chat_template, const RenderOptions& options)
      : template_(chat_template), options_(options) {}

  // Renders a question and `following`; nullopt: the template refuses. prompt: for an answer.
  std::optional<std::string> render(const Json& following, bool tools, bool prompt) const {
    return render_behind("", following, tools, prompt);
  }
  // The same after a system message.
  std::optional<std::string> render_behind(std::string_view system, const Json& following,
                                           bool tools, bool prompt) const;
  std::optional<std::string> render_answer(const Json& answer, bool tools) const {
    return render(Json::array({answer}), tools, false);
  }

  // A message of the assistant with a call of the tool, or two.
  static Json calling(bool null_content, bool text_arguments, bool twice);

 private:
  const ChatTemplate& template_;
  const RenderOptions& options_;
};

}  // namespace kvick::text
