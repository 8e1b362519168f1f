#pragma once
// Chat templates: the part of Jinja2 that published models' templates use, compiled once, run per
// prompt. What a template sees is what Hugging Face gives it: trim_blocks, lstrip_blocks, loop
// controls, tojson without HTML escapes, raise_exception, strftime_now, namespace, and {%
// generation %} as a mark without effect.

#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::text {

struct RenderOptions {
  // The local time that strftime_now formats. Templates that find strftime_now undefined take a
  // date of their own.
  std::function<std::tm()> now;
  // What a template may use; beyond it, rendering is an Error. A step is one operation or 32 bytes
  // touched.
  uint64_t max_steps = 50'000'000;
  size_t max_output_bytes = 64 << 20;
  size_t max_memory_bytes = 256 << 20;
};

class ChatTemplate {
 public:
  // Error: a construct outside the subset or a syntax error, with its line.
  static base::Result<ChatTemplate> parse(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // context: an object with what templates read: messages, add_generation_prompt, bos_token,
  // eos_token, tools, ... Error: what the template raises (raise_exception), an operation on values
  // that do not take it, or more than the bounded work and output a template may do. Any number of
  // threads may render at once.
  base::Result<std::string> render(const nlohmann::ordered_json& context,
                                   const RenderOptions& options = {}) const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace kvick::text
