#pragma once
// The forms that a request may ask of its answers.

#include "server/openai/plan.h"

namespace kvick::server {

// Of a response_format as read_form_fields() leaves it: json_object, json_schema with its schema,
// regex, grammar, choice. The last few are kept, so that a form that comes again is not compiled
// again, and its answers share what earlier ones found out. The tokenizer is read once, here; one
// without an end token makes none, and then each request hears why.
MakeConstraint answer_forms(const text::Tokenizer& tokenizer);

}  // namespace kvick::server
