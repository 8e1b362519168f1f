#pragma once
// Writes answers to POST /infill and POST /completion in llama-server's form.

#include "server/answer/answer_format.h"
#include "text/tokenizer/tokenizer.h"

namespace kvick::server {

// The answer has one choice. The tokenizer must outlive the formats. textless: without the answer's
// text and tokens.
MakeFormat infill_format(const text::Tokenizer& tokenizer, bool textless);
MakeFormat llama_completion_format(const text::Tokenizer& tokenizer, bool textless);

}  // namespace kvick::server
