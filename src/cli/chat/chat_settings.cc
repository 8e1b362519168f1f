#include "cli/chat/chat_settings.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/terminal/help_text.h"

namespace kvick::cli {
namespace {

using base::Done;
using base::Status;
using Thoughts = ChatSettings::Thoughts;

struct Setting {
  std::string_view name;
  Status<> (*set)(ChatSettings& settings, std::string_view value);
  std::string (*get)(const ChatSettings& settings);
};

template <typename T>
Status<> read_number(std::string_view text, T& out) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [at, wrong] = std::from_chars(text.data(), end, value);
  if (wrong != std::errc() || at != end)
    return base::fail("'{}' is not a {}number", text, std::is_integral_v<T> ? "whole " : "");
  out = value;
  return Done{};
}

template <auto kMember>
constexpr Setting sampling_setting(std::string_view name) {
  return {
      name,
      [](ChatSettings& settings, std::string_view value) {
        return read_number(value, settings.sampling.*kMember);
      },
      [](const ChatSettings& settings) { return fmt::format("{}", settings.sampling.*kMember); }};
}

constexpr std::array<std::string_view, 3> kThoughts = {"show", "fold", "hide"};

Status<> set_thoughts(ChatSettings& settings, std::string_view value) {
  const auto* const found = std::find(kThoughts.begin(), kThoughts.end(), value);
  if (found == kThoughts.end())
    return base::fail("'{}' is none of {}", value, fmt::join(kThoughts, ", "));
  settings.thoughts = static_cast<Thoughts>(found - kThoughts.begin());
  return Done{};
}

Status<> set_markdown(ChatSettings& settings, std::string_view value) {
  if (value != "on" && value != "off") return base::fail("'{}' is none of on, off", value);
  settings.markdown = value == "on";
  return Done{};
}

constexpr std::array kSettings = {
    sampling_setting<&engine::Sampling::temperature>("temperature"),
    sampling_setting<&engine::Sampling::top_k>("top_k"),
    sampling_setting<&engine::Sampling::top_p>("top_p"),
    sampling_setting<&engine::Sampling::min_p>("min_p"),
    sampling_setting<&engine::Sampling::seed>("seed"),
    sampling_setting<&engine::Sampling::repetition_penalty>("repeat_penalty"),
    sampling_setting<&engine::Sampling::presence_penalty>("presence_penalty"),
    sampling_setting<&engine::Sampling::frequency_penalty>("frequency_penalty"),
    Setting{"max_tokens",
            [](ChatSettings& settings, std::string_view value) {
              return read_number(value, settings.max_tokens);
            },
            [](const ChatSettings& settings) { return fmt::format("{}", settings.max_tokens); }},
    Setting{"thoughts", &set_thoughts,
            [](const ChatSettings& settings) {
              return std::string(kThoughts[static_cast<size_t>(settings.thoughts)]);
            }},
    Setting{
        "markdown", &set_markdown,
        [](const ChatSettings& settings) { return std::string(settings.markdown ? "on" : "off"); }},
};

}  // namespace

std::vector<std::string> chat_setting_names() {
  std::vector<std::string> names;
  for (const Setting& setting : kSettings) names.emplace_back(setting.name);
  return names;
}

Status<> set_chat_setting(ChatSettings& settings, std::string_view name, std::string_view value,
                          uint32_t vocab) {
  const auto* const found = std::find_if(kSettings.begin(), kSettings.end(),
                                         [&](const Setting& one) { return one.name == name; });
  if (found == kSettings.end()) {
    const std::vector<std::string> names = chat_setting_names();
    const std::string_view meant = nearest(name, names);
    if (!meant.empty())
      return base::fail("there is no setting '{}'; did you mean '{}'?", name, meant);
    return base::fail("there is no setting '{}'; there are {}", name, fmt::join(names, ", "));
  }
  ChatSettings changed = settings;
  if (const auto set = found->set(changed, value); !set.ok())
    return base::fail("{}: {}", name, set.error().message);
  KVICK_TRY_VOID(engine::check(changed.sampling, vocab));
  settings = changed;
  return Done{};
}

std::string chat_settings_text(const ChatSettings& settings) {
  std::string text;
  for (const Setting& setting : kSettings)
    text += fmt::format("  {:<18} {}\n", setting.name, setting.get(settings));
  return text;
}

}  // namespace kvick::cli
