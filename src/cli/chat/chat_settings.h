#pragma once
// What /set changes in a chat.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/sampling/sampler.h"

namespace kvick::cli {

struct ChatSettings {
  engine::Sampling sampling;
  uint32_t max_tokens = 0;  // of one answer; 0: until the model ends it or the context is full
  enum class Thoughts : uint8_t { kShow, kFold, kHide } thoughts = Thoughts::kShow;
  bool markdown = false;  // shown as it is meant, not as it is written
};

std::vector<std::string> chat_setting_names();

// Error, and no change: no such setting (names the nearest), or no such value of it.
base::Status<> set_chat_setting(ChatSettings& settings, std::string_view name,
                                std::string_view value, uint32_t vocab);

// All settings, one a line: NAME VALUE.
std::string chat_settings_text(const ChatSettings& settings);

}  // namespace kvick::cli
