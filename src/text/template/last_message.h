#pragma once
// Continues the last message of a conversation instead of starting a new one.

#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace kvick::text {

// Cuts the prompt that a template made of the messages after the text of the last message, as
// Hugging Face's continue_final_message does. White space around the text is removed if the
// template trims it. Error: the last message has no text, or the prompt does not contain it.
base::Status<> cut_behind_last_message(const nlohmann::ordered_json& messages, std::string& prompt);

}  // namespace kvick::text
