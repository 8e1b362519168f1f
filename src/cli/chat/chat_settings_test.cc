#include "cli/chat/chat_settings.h"

#include <gtest/gtest.h>

namespace kvick::cli {
namespace {

constexpr uint32_t kVocab = 100;

std::string set(ChatSettings& settings, std::string_view name, std::string_view value) {
  const auto done = set_chat_setting(settings, name, value, kVocab);
  return done.ok() ? "" : done.error().message;
}

TEST(ChatSettings, AreSetByName) {
  ChatSettings settings;
  EXPECT_EQ(set(settings, "temperature", "0.25"), "");
  EXPECT_EQ(set(settings, "top_k", "7"), "");
  EXPECT_EQ(set(settings, "seed", "42"), "");
  EXPECT_EQ(set(settings, "max_tokens", "9"), "");
  EXPECT_EQ(set(settings, "thoughts", "fold"), "");
  EXPECT_EQ(set(settings, "markdown", "on"), "");
  EXPECT_EQ(settings.sampling.temperature, 0.25F);
  EXPECT_EQ(settings.sampling.top_k, 7u);
  EXPECT_EQ(settings.sampling.seed, 42u);
  EXPECT_EQ(settings.max_tokens, 9u);
  EXPECT_EQ(settings.thoughts, ChatSettings::Thoughts::kFold);
  EXPECT_TRUE(settings.markdown);
}

TEST(ChatSettings, AreShownAsTheyAreSet) {
  ChatSettings settings;
  for (const std::string& name : chat_setting_names())
    EXPECT_NE(chat_settings_text(settings).find("  " + name + " "), std::string::npos) << name;
  set(settings, "top_p", "0.5");
  EXPECT_NE(chat_settings_text(settings).find("top_p              0.5\n"), std::string::npos);
}

TEST(ChatSettings, AWrongValueChangesNothing) {
  ChatSettings settings;
  for (const char* value : {"hot", "", "1x", "-1"})
    EXPECT_NE(set(settings, "temperature", value), "") << value;
  EXPECT_NE(set(settings, "top_k", "1.5").find("'1.5' is not a whole number"), std::string::npos);
  EXPECT_NE(set(settings, "markdown", "yes").find("none of on, off"), std::string::npos);
  EXPECT_NE(set(settings, "thoughts", "loud").find("none of show, fold, hide"), std::string::npos);
  EXPECT_EQ(settings.sampling.temperature, engine::Sampling{}.temperature);
}

TEST(ChatSettings, AnUnknownNameNamesTheNearest) {
  ChatSettings settings;
  EXPECT_NE(set(settings, "temprature", "1").find("did you mean 'temperature'?"),
            std::string::npos);
  EXPECT_NE(set(settings, "zzzzzz", "1").find("there are temperature, "), std::string::npos);
}

}  // namespace
}  // namespace kvick::cli
