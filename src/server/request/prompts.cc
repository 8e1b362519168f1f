#include "server/request/prompts.h"

#include "server/request/token_list.h"

namespace kvick::server {
namespace {

ApiResult<Prompt> read_prompt(const Json& value, const std::string& name) {
  if (value.is_string()) return Prompt(value.get<std::string>());
  if (!value.is_array())
    return bad_field(name,
                     "{} must be a string, a list of strings, a list of token ids, or a list of "
                     "such lists",
                     name);
  KVICK_TRY(std::vector<engine::Token> tokens, read_tokens(value, name));
  return Prompt(std::move(tokens));
}

}  // namespace

ApiResult<std::vector<Prompt>> read_prompts(Fields& fields, std::string_view name, size_t most,
                                            std::string_view noun) {
  const std::string path = fields.path(name);
  const Json* value = fields.find(name);
  if (value == nullptr) return bad_field(path, "{} is missing", path);
  const bool several = value->is_array() && !value->empty() && !value->front().is_number();
  if (several && value->size() > most)
    return bad_field(path, "{} has {} {}; at most {} are taken", path, value->size(), noun, most);
  std::vector<Prompt> prompts;
  if (!several) {
    KVICK_TRY(Prompt prompt, read_prompt(*value, path));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  for (const Json& one : *value) {
    KVICK_TRY(Prompt prompt, read_prompt(one, path));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

ApiResult<std::vector<engine::Token>> prompt_tokens(const Prompt& prompt, const std::string& name,
                                                    const engine::Engine& engine) {
  const text::Tokenizer& tokenizer = engine.tokenizer();
  std::vector<engine::Token> tokens;
  if (const auto* text = std::get_if<std::string>(&prompt))
    tokens = tokenizer.encode(*text, true, true);
  else
    tokens = std::get<std::vector<engine::Token>>(prompt);
  if (tokens.empty()) return bad_field(name, "{} is empty: there is nothing to read", name);
  const size_t vocab = tokenizer.vocabulary().pieces.size();
  for (const engine::Token token : tokens)
    if (static_cast<size_t>(token) >= vocab)
      return bad_field(name, "{} has token {}, but the vocabulary ends at {}", name, token,
                       vocab - 1);
  return tokens;
}

}  // namespace kvick::server
