#pragma once
// Writes answers to POST /infill and POST /completion in llama-server's form.

#include "server/answer/answer_format.h"

namespace kvick::server {

// The answer has one choice.
std::unique_ptr<AnswerFormat> infill_format(AnswerHead head);
// The same, without the answer's text.
std::unique_ptr<AnswerFormat> textless_infill_format(AnswerHead head);

// Formats answers to POST /completion. textless: without the answer's text.
MakeFormat llama_completion_format(bool textless);

}  // namespace kvick::server
