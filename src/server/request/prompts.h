#pragma once
// Texts in requests in the forms of OpenAI's API: strings, or lists of token ids.

#include <string>
#include <variant>
#include <vector>

#include "engine/core/engine.h"
#include "server/request/fields.h"

namespace kvick::server {

using Prompt = std::variant<std::string, std::vector<engine::Token>>;

// Reads 1 to `most` prompts. noun: what errors call them: "prompts".
ApiResult<std::vector<Prompt>> read_prompts(Fields& fields, std::string_view name, size_t most,
                                            std::string_view noun);
// Returns the prompt's tokens, at least one. name: the field's name in errors.
ApiResult<std::vector<engine::Token>> prompt_tokens(const Prompt& prompt, const std::string& name,
                                                    const engine::Engine& engine);

}  // namespace kvick::server
