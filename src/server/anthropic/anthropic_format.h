#pragma once
// Writes answers in Anthropic's JSON: a message, or the events of a stream that build one.

#include "server/answer/answer_format.h"

namespace kvick::server {

// For plans with one choice. Thoughts are a block before the text, with an empty signature; each
// tool call is a block after it. Text of white space alone is no block. For a call that was cut
// off, a whole answer has an empty input, and a stream the beginning of its JSON.
MakeFormat anthropic_format();

}  // namespace kvick::server
