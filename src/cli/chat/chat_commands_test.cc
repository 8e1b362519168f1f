#include "cli/chat/chat_commands.h"

#include <gtest/gtest.h>

#include "cli/chat/chat.h"

namespace kvick::cli {
namespace {

TEST(ChatCommands, AreFoundByTheirFirstWord) {
  ASSERT_NE(find_chat_command("/set top_p 0.9"), nullptr);
  EXPECT_EQ(find_chat_command("/set top_p 0.9")->action, ChatAction::kSet);
  EXPECT_EQ(arguments_of("/set  top_p 0.9 "), "top_p 0.9");
  EXPECT_EQ(arguments_of("/set"), "");
  for (const char* leave : {"/bye", "/exit", "/quit"})
    EXPECT_EQ(find_chat_command(leave)->action, ChatAction::kBye);
}

TEST(ChatCommands, ASentenceIsNone) {
  EXPECT_EQ(find_chat_command("/clear the table"), nullptr);
  EXPECT_EQ(find_chat_command("/usr/bin is a folder"), nullptr);
  EXPECT_EQ(find_chat_command("/"), nullptr);
}

TEST(ChatCommands, AMistypedOneNamesTheNearest) {
  EXPECT_EQ(likely_chat_command("/hlep"), "/help");
  EXPECT_EQ(likely_chat_command("/usr/bin"), "");
  EXPECT_EQ(likely_chat_command("/clear the table"), "") << "a message, and no mistyped command";
}

TEST(ChatCommands, AreCompleted) {
  EXPECT_EQ(complete_chat_command("/he"), std::vector<std::string>{"/help"});
  EXPECT_EQ(complete_chat_command("/sa"), std::vector<std::string>{"/save "});
  EXPECT_EQ(complete_chat_command("/set top_p"), std::vector<std::string>{"/set top_p "});
  EXPECT_EQ(complete_chat_command("/set t").size(), 4u);  // temperature, thoughts, top_k, top_p
  EXPECT_TRUE(complete_chat_command("word").empty());
}

TEST(ChatCommands, HelpListsAll) {
  const std::string help = chat_help();
  for (const ChatCommand& one : chat_commands())
    EXPECT_TRUE(one.summary.empty() || help.find(one.name) != std::string::npos) << one.name;
}

}  // namespace
}  // namespace kvick::cli
