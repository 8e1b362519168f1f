#include "cli/chat/conversation.h"

#include <gtest/gtest.h>

#include "cli/models/test_folder.h"

namespace kvick::cli {
namespace {

class Conversation : public testing::Test {
 protected:
  std::string refusal(const std::string& text) {
    const auto read = read_conversation(folder_.write("c.json", text));
    return read.ok() ? "" : read.error().message;
  }
  TestFolder folder_;
};

TEST_F(Conversation, IsReadAsItWasWritten) {
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  messages.push_back({{"role", "system"}, {"content", "Be brief."}});
  messages.push_back({{"role", "user"}, {"content", "two\nlines \xE2\x82\xAC"}});
  messages.push_back({{"role", "assistant"}, {"content", ""}});
  const auto path = folder_.path / "c.json";
  ASSERT_TRUE(write_conversation(path, "m", messages).ok());
  const auto read = read_conversation(path);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(*read, messages);
}

TEST_F(Conversation, OtherFilesAreRefused) {
  for (const char* text : {"", "hello", "[]", "{}", "{\"messages\": 1}"})
    EXPECT_NE(refusal(text).find("is not a conversation"), std::string::npos) << text;
  for (const char* message : {"1", "{}", R"({"role": "user"})", R"({"role": "user", "content": 3})",
                              R"({"role": "judge", "content": "x"})"})
    EXPECT_NE(refusal("{\"messages\": [" + std::string(message) + "]}").find("message 0 needs"),
              std::string::npos)
        << message;
  const std::string deep = std::string(500'000, '[') + std::string(500'000, ']');
  EXPECT_NE(refusal("{\"other\": " + deep + ", \"messages\": []}").find("is not a conversation"),
            std::string::npos);
  const auto none = read_conversation(folder_.path / "none.json");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("cannot read"), std::string::npos);
}

}  // namespace
}  // namespace kvick::cli
