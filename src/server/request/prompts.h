#pragma once
// Texts in requests, as OpenAI's API takes them: strings, or lists of token ids.

#include <string>
#include <variant>
#include <vector>

#include "engine/core/engine.h"
#include "server/request/fields.h"

namespace kvick::server {

using Prompt = std::variant<std::string, std::vector<engine::Token>>;

// One or several: at least one, at most `most`. noun: of what they are, for errors: "prompts".
ApiResult<std::vector<Prompt>> read_prompts(Fields& fields, std::string_view name, size_t most,
                                            std::string_view noun);
// At least one. name: the field, for errors.
ApiResult<std::vector<engine::Token>> prompt_tokens(const Prompt& prompt, const std::string& name,
                                                    const engine::Engine& engine);

}  // namespace kvick::server
