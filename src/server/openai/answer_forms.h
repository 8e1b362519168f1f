#pragma once
// Compiles the forms that requests may require of their answers.

#include "server/openai/plan.h"

namespace kvick::server {

// Returns a function that compiles a response_format as read_form_fields() leaves it: json_object,
// json_schema with its schema, regex, grammar, choice. It caches the last few forms, so that a
// repeated form is not compiled again and shares the masks that earlier answers computed. The
// tokenizer is read once, here. For one without an end token, the function returns an error for
// every form.
MakeConstraint answer_forms(const text::Tokenizer& tokenizer);

}  // namespace kvick::server
