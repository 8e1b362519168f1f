#pragma once
// Chat templates: the part of Jinja2 that the templates of published models use, compiled once and
// run per prompt. The environment is that of Hugging Face: trim_blocks, lstrip_blocks, loop
// controls, tojson without HTML escapes, raise_exception, strftime_now, namespace, and {%
// generation %}, which has no effect.

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
  // Returns the local time that strftime_now formats. If empty, strftime_now is undefined, and
  // templates use a date of their own.
  std::function<std::tm()> now;
  // Limits of one rendering; exceeding one is an Error. A step is one operation, or 32 bytes that
  // are read or written.
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

  // Renders the template; any number of threads may do so at once. context: an object with what
  // templates read: messages, add_generation_prompt, bos_token, eos_token, tools, ... Error: what
  // the template raises (raise_exception), an operation on a value of a wrong type, or a limit that
  // is exceeded.
  base::Result<std::string> render(const nlohmann::ordered_json& context,
                                   const RenderOptions& options = {}) const;

 private:
  struct Program;
  explicit ChatTemplate(std::unique_ptr<Program> program);
  std::unique_ptr<Program> program_;
};

}  // namespace kvick::text
