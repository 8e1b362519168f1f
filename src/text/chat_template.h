#pragma once
// Chat templates: the part of Jinja2 that published models' templates use, compiled once, run per prompt.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/result.h"

namespace kvick::text {

class ChatTemplate {
 public:
  // Error: a construct outside the subset or a syntax error, with its line.
  static base::Result<ChatTemplate> parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // context: an object with what templates read: messages, add_generation_prompt, bos_token, eos_token, tools, ...
  // Error: what the template raises (raise_exception), an operation on values that do not take it, or more than the
  // bounded work and output a template may do.
  base::Result<std::string> render(const nlohmann::ordered_json& context) const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace kvick::text
