#include "server/openai/json_form.h"

#include "text/schema/json_constraint.h"

namespace kvick::server {
namespace {

using Form = std::shared_ptr<const text::Constraint>;

// Of a response_format that read_generation let through.
base::Result<Form> make_form(const std::shared_ptr<const text::TokenTrie>& tokens,
                             const Json& format) {
  if (format.at("type") == "json_object")
    return text::json_constraint(tokens, {{"type", "object"}});
  return text::json_constraint(tokens, format.at("json_schema").at("schema"));
}

}  // namespace

MakeConstraint json_forms(const text::Tokenizer& tokenizer) {
  auto tokens = text::TokenTrie::make(tokenizer);
  if (!tokens.ok())
    return [error = tokens.error()](const Json&) -> base::Result<Form> { return error; };
  return [all = *std::move(tokens)](const Json& format) { return make_form(all, format); };
}

}  // namespace kvick::server
