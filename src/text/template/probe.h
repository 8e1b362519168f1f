#pragma once
// Renders a chat template over messages of made-up words. All text around these words must then
// come from the template.

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

  // Both must outlive the probe.
  Probe(const ChatTemplate& chat_template, const RenderOptions& options)
      : template_(chat_template), options_(options) {}

  // Renders a question and then `following`. nullopt: the template refuses. prompt: whether the
  // header of the next answer is added.
  std::optional<std::string> render(const Json& following, bool tools, bool prompt) const {
    return render_behind("", following, tools, prompt);
  }
  // Does the same after a system message.
  std::optional<std::string> render_behind(std::string_view system, const Json& following,
                                           bool tools, bool prompt) const;
  std::optional<std::string> render_answer(const Json& answer, bool tools) const {
    return render(Json::array({answer}), tools, false);
  }

  // Returns a message of the assistant that calls the tool once or, with `twice`, two times.
  static Json calling(bool null_content, bool text_arguments, bool twice);

 private:
  const ChatTemplate& template_;
  const RenderOptions& options_;
};

}  // namespace kvick::text
