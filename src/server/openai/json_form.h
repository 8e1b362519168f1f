#pragma once
// The forms that a request may ask of its answers.

#include "server/openai/plan.h"

namespace kvick::server {

// json_object, and json_schema with its schema; text is no form. The tokenizer is read once, here;
// one without an end token makes none, and then each request hears why.
MakeConstraint json_forms(const text::Tokenizer& tokenizer);

}  // namespace kvick::server
