#pragma once
// The settings of a chat that /set changes.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/sampling/sampler.h"

namespace kvick::cli {

struct ChatSettings {
  engine::Sampling sampling;
  uint32_t max_tokens = 0;  // of an answer; 0: until the model ends it or the context is full
  enum class Thoughts : uint8_t { kShow, kFold, kHide } thoughts = Thoughts::kShow;
  bool markdown = false;  // render Markdown
};

std::vector<std::string> chat_setting_names();

// Sets one setting. On an error nothing is changed. Errors: no such setting (names the nearest), or
// an invalid value.
base::Status<> set_chat_setting(ChatSettings& settings, std::string_view name,
                                std::string_view value, uint32_t vocab);

// Returns all settings, one line each: NAME VALUE.
std::string chat_settings_text(const ChatSettings& settings);

}  // namespace kvick::cli
