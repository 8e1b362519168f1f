#pragma once
// Answers in Anthropic's JSON: a message, or the events of a stream that make one.

#include "server/answer/answer_format.h"

namespace kvick::server {

// Of plans with one choice. Thoughts are a block in front of the text, with an empty signature;
// each call of a tool is a block behind it. Text of white space alone is no block. A call that is
// cut off has an empty input in a whole answer, and in a stream the beginning of its JSON.
MakeFormat anthropic_format();

}  // namespace kvick::server
