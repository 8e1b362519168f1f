#include "server/responses/input_items.h"

#include <gtest/gtest.h>

#include "server/responses/item_list.h"

namespace kvick::server {
namespace {

Json find_nothing(const std::string&) { return nullptr; }

ApiResult<Json> read(const char* input, const FindItem& find = find_nothing) {
  const Json body = {{"input", Json::parse(input)}};
  UnknownFields unknown(true);
  Fields fields = *Fields::of(body, "", unknown);
  return read_input(fields, find);
}

Json messages(const char* input, const std::string& instructions = "") {
  const auto items = read(input);
  EXPECT_TRUE(items.ok()) << items.error().message;
  return chat_messages(instructions, *items);
}

TEST(InputItems, TakeATextAsAMessageOfTheUser) {
  EXPECT_EQ(messages(R"("Hi")"), Json::parse(R"([{"role":"user","content":"Hi"}])"));
  EXPECT_EQ((*read(R"("Hi")"))[0]["content"],
            Json::parse(R"([{"type":"input_text","text":"Hi"}])"));
}

TEST(InputItems, JoinThePartsOfAMessage) {
  EXPECT_EQ(
      messages(R"([{"role":"user","content":[{"type":"input_text","text":"a"},
                         {"type":"input_text","text":"b"}]},
                         {"type":"message","role":"assistant","id":"msg_1","status":"completed",
                          "content":[{"type":"output_text","text":"c","annotations":[],"logprobs":[]},
                                     {"type":"refusal","refusal":"d"}]}])"),
      Json::parse(R"([{"role":"user","content":"a\nb"},{"role":"assistant","content":"c\nd"}])"));
}

TEST(InputItems, PutThoughtsTextAndCallsOfOneTurnIntoOneMessage) {
  EXPECT_EQ(messages(R"([{"role":"user","content":"q"},
        {"type":"reasoning","id":"rs_1","summary":[],"content":[{"type":"reasoning_text","text":"t"}],
         "encrypted_content":null},
        {"role":"assistant","content":"say"},
        {"type":"function_call","call_id":"1","name":"f","arguments":"{\"x\":1}"},
        {"type":"function_call","call_id":"2","name":"g","arguments":""},
        {"type":"function_call_output","call_id":"1","output":"one"},
        {"type":"function_call_output","call_id":"2","output":[{"type":"input_text","text":"two"}]},
        {"role":"assistant","content":"done"}])"),
            Json::parse(R"([{"role":"user","content":"q"},
        {"role":"assistant","content":"say","reasoning_content":"t","tool_calls":[
          {"id":"1","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},
          {"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]},
        {"role":"tool","tool_call_id":"1","content":"one"},
        {"role":"tool","tool_call_id":"2","content":"two"},
        {"role":"assistant","content":"done"}])"));
}

TEST(InputItems, PutTheNamespaceOfACallInFrontOfItsName) {
  const Json made = messages(R"([{"type":"function_call","call_id":"1","namespace":"files",
      "name":"read","arguments":"{}"},{"type":"function_call","call_id":"2","name":"read"}])");
  EXPECT_EQ(made[0]["tool_calls"][0]["function"]["name"], "files__read");
  EXPECT_EQ(made[0]["tool_calls"][1]["function"]["name"], "read");
}

TEST(InputItems, SayThatAPictureOfAToolIsLeftOut) {
  const Json body = Json::parse(R"({"input":[{"type":"function_call_output","call_id":"1",
      "output":[{"type":"input_image","image_url":"x"},{"type":"input_text","text":"t"}]}]})");
  UnknownFields unknown(false);
  Fields fields = *Fields::of(body, "", unknown);
  const auto read = read_input(fields, find_nothing);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(chat_messages("", *read)[0]["content"],
            "[image left out: this model reads only text]\nt");
  EXPECT_EQ(unknown.names(), std::vector<std::string>{"input[0].output[0].image_url"});
}

TEST(InputItems, AreCallsWithoutArgumentsWhereTheseAreNoObject) {
  const Json body = Json::parse(R"({"input":[{"role":"user","content":"q"},
      {"type":"function_call","call_id":"1","name":"f","arguments":"{\"x\": 1"}]})");
  UnknownFields unknown(false);
  Fields fields = *Fields::of(body, "", unknown);
  const auto read = read_input(fields, find_nothing);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ((*read)[1]["arguments"], "{}");
  EXPECT_EQ(unknown.names(), std::vector<std::string>{"input[1].arguments"});
}

TEST(InputItems, BeginANewMessageWhereThoughtsFollowACall) {
  const Json made = messages(R"([{"role":"user","content":"q"},{"role":"assistant","content":"a"},
      {"role":"assistant","content":"b"},
      {"type":"reasoning","content":[{"type":"reasoning_text","text":"t"}]}])");
  ASSERT_EQ(made.size(), 4U);
  EXPECT_EQ(made[3], Json::parse(R"({"role":"assistant","content":"","reasoning_content":"t"})"));
}

TEST(InputItems, PutInstructionsAndTheFirstSystemMessagesIntoOne) {
  EXPECT_EQ(messages(R"([{"role":"developer","content":"b"},{"role":"system","content":"c"},
                         {"role":"user","content":"q"},{"role":"developer","content":"d"}])",
                     "a"),
            Json::parse(R"([{"role":"system","content":"a\n\nb\n\nc"},{"role":"user","content":"q"},
                            {"role":"system","content":"d"}])"));
}

TEST(InputItems, LeaveOutThoughtsThatHaveNoText) {
  EXPECT_EQ(messages(R"([{"role":"user","content":"q"},{"type":"reasoning","id":"rs_1",
      "summary":[{"type":"summary_text","text":"s"}],"encrypted_content":"x"}])")
                .size(),
            1U);
}

TEST(InputItems, AreTheItemsThatAReferenceNames) {
  const FindItem find = [](const std::string& id) {
    return id == "msg_1" ? Json::parse(R"({"id":"msg_1","type":"message","role":"assistant",
        "content":[{"type":"output_text","text":"x"}]})")
                         : Json();
  };
  const auto items = read(R"([{"type":"item_reference","id":"msg_1"},{"id":"msg_1"}])", find);
  ASSERT_TRUE(items.ok());
  EXPECT_EQ((*items)[1]["id"], "msg_1");
  const auto missing = read(R"([{"type":"item_reference","id":"msg_2"}])", find);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().param, "input[0].id");
}

TEST(InputItems, SayWhatIsWrongWithThem) {
  const struct {
    const char *input, *param, *says;
  } kTable[] = {
      {"null", "input", "missing"},
      {"3", "input", "string or a list"},
      {"[]", "input", "at least one item"},
      {"[1]", "input[0]", "JSON object"},
      {R"([{"role":"robot","content":"x"}])", "input[0].role", "robot"},
      {R"([{"role":"user"}])", "input[0].content", "list of parts"},
      {R"([{"role":"user","content":[{"type":"input_image","image_url":"x"}]}])",
       "input[0].content[0].type", "takes only text"},
      {R"([{"role":"user","content":[{"type":"input_file","file_id":"x"}]}])",
       "input[0].content[0].type", "input_file"},
      {R"([{"role":"user","content":"x"},{"type":"computer_call"}])", "input[1].type",
       "computer_call"},
      {R"([{"type":"function_call","call_id":"1","arguments":"{}"}])", "input[0].name", "missing"},
      {R"([{"type":"function_call","call_id":"1","name":"f","arguments":"[]"}])",
       "input[0].arguments", "JSON object in a string"},
      {R"([{"type":"function_call_output","output":"x"}])", "input[0].call_id", "missing"},
      {R"([{"type":"function_call_output","call_id":"1"}])", "input[0].output", "must be a string"},
      {R"([{"type":"reasoning","content":"x"}])", "input[0].content", "list of parts"},
      {R"([{"type":"reasoning","content":[{"type":"image"}]}])", "input[0].content[0].type",
       "reasoning_text"},
      {R"([{"role":"user","content":"x","odd":1}])", "input[0].odd", "odd"},
  };
  for (const auto& one : kTable) {
    SCOPED_TRACE(one.input);
    const auto items = read(one.input);
    ASSERT_FALSE(items.ok());
    EXPECT_EQ(items.error().param, one.param);
    EXPECT_NE(items.error().message.find(one.says), std::string::npos) << items.error().message;
  }
}

TEST(ItemLists, ArePagesInEitherOrder) {
  Json items = Json::array();
  for (int i = 0; i < 5; ++i) items.push_back({{"id", fmt::format("i{}", i)}});
  const auto ids = [&](const char* query) {
    const auto list = item_list(items, fmt::format("/v1/responses/x/input_items{}", query));
    EXPECT_TRUE(list.ok()) << list.error().message;
    std::string out;
    for (const Json& one : (*list)["data"]) out += one["id"].get<std::string>();
    EXPECT_EQ((*list)["last_id"], out.empty() ? "" : out.substr(out.size() - 2));
    return out + ((*list)["has_more"] == true ? "+" : "");
  };
  EXPECT_EQ(ids(""), "i4i3i2i1i0");
  EXPECT_EQ(ids("?order=asc&limit=2"), "i0i1+");
  EXPECT_EQ(ids("?order=asc&limit=2&after=i1"), "i2i3+");
  EXPECT_EQ(ids("?limit=2&after=i1"), "i0");
  EXPECT_EQ(ids("?after=i0"), "");
  for (const char* wrong : {"?limit=0", "?limit=101", "?limit=x", "?order=up", "?after=none"})
    EXPECT_FALSE(item_list(items, std::string("/x") + wrong).ok()) << wrong;
}

}  // namespace
}  // namespace kvick::server
