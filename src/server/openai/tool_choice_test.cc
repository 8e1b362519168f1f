// tool_choice with some of the tools.

#include "server/testing/requests.h"

namespace kvick::server {
namespace {

constexpr const char* kTools =
    R"(,"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}},
                 {"type":"function","function":{"name":"h"}}],"tool_choice":)";

std::string choosing(const char* allowed) {
  return fmt::format(R"({}{{"type":"allowed_tools","allowed_tools":{}}})", kTools, allowed);
}

ChatRequest chosen(const char* allowed) {
  auto request = parse_chat(Json::parse(
      fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}]{}}})", choosing(allowed))));
  EXPECT_TRUE(request.ok()) << request.error().message;
  return *std::move(request);
}

TEST(ToolChoice, AllowsSomeOfTheToolsAndShowsTheTemplateAll) {
  const ChatRequest request = chosen(R"({"mode":"auto","tools":[
      {"type":"function","function":{"name":"h"}},{"type":"function","function":{"name":"f"}}]})");
  EXPECT_EQ(request.tools.names, (std::vector<std::string>{"h", "f"}));
  EXPECT_EQ(request.tools.choice, Tools::Choice::kAuto);
  EXPECT_TRUE(request.response_format.is_null());
  EXPECT_EQ(request.variables["tools"].size(), 3U);
}

TEST(ToolChoice, RequiresACallOfOneOfThem) {
  const ChatRequest request =
      chosen(R"({"mode":"required","tools":[{"type":"function","function":{"name":"g"}}]})");
  EXPECT_EQ(request.tools.choice, Tools::Choice::kRequired);
  const Json& schema = request.response_format["json_schema"]["schema"];
  EXPECT_EQ(schema["properties"]["name"]["enum"], Json::array({"g"}));
}

TEST(ToolChoice, NamesWhatIsWrong) {
  expect_refused(
      {
          {choosing("1"), "tool_choice.allowed_tools", {"object"}},
          {choosing("null"), "tool_choice.allowed_tools", {"missing"}},
          {choosing(R"({"mode":"none","tools":[]})"),
           "tool_choice.allowed_tools.mode",
           {"\"none\"", "required"}},
          {choosing(R"({"tools":[]})"), "tool_choice.allowed_tools.tools", {"1 to 4096"}},
          {choosing(R"({"tools":[{"type":"function","function":{"name":"x"}}]})"),
           "tool_choice.allowed_tools.tools[0]",
           {"\"x\"", "not among the tools"}},
          {choosing(R"({"tools":[{"type":"custom","custom":{"name":"f"}}]})"),
           "tool_choice.allowed_tools.tools[0].type",
           {"function"}},
      },
      true);
}

}  // namespace
}  // namespace kvick::server
