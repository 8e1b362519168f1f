#include "server/json_form.h"

#include "text/json_constraint.h"

namespace kvick::server {
namespace {

using Form = std::shared_ptr<const text::Constraint>;

base::Result<Form> make_form(const std::shared_ptr<const text::TokenTrie>& tokens,
                             const Json& format) {
  const std::string type = format.value("type", "");
  if (type == "text") return Form();
  if (type == "json_object") return text::json_constraint(tokens, {{"type", "object"}});
  if (type != "json_schema")
    return base::fail("\"{}\" is no form of answers; there are text, json_object and json_schema",
                      type);
  const auto given = format.find("json_schema");
  if (given == format.end() || !given->is_object() || !given->contains("schema"))
    return base::fail("json_schema needs the schema as json_schema.schema");
  return text::json_constraint(tokens, given->at("schema"));
}

}  // namespace

MakeConstraint json_forms(const text::Tokenizer& tokenizer) {
  auto tokens = text::TokenTrie::make(tokenizer);
  if (!tokens.ok())
    return [error = tokens.error()](const Json&) -> base::Result<Form> { return error; };
  return [all = *std::move(tokens)](const Json& format) { return make_form(all, format); };
}

}  // namespace kvick::server
