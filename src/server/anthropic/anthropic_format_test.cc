// Anthropic's messages, whole and as the events of a stream, for any split of the text into pieces.

#include "server/anthropic/anthropic_format.h"

#include <gtest/gtest.h>
#include <random>
#include <sstream>

#include "server/answer/choice.h"

namespace kvick::server {
namespace {

// Builds a message from events as Anthropic's clients do.
class Assembler {
 public:
  void take(const std::string& name, const Json& event) {
    EXPECT_EQ(event["type"], name);
    if (name == "message_start") message_ = event["message"];
    if (name == "content_block_start") start(event);
    if (name == "content_block_delta") add(event);
    if (name == "content_block_stop") stop(event);
    if (name == "message_delta") {
      message_.update(event["delta"]);
      message_["usage"].update(event["usage"]);
    }
    ended_ = name == "message_stop";
  }
  // Returns the complete message.
  Json message() const {
    EXPECT_TRUE(ended_ && !open_);
    return message_;
  }

 private:
  void start(const Json& event) {
    EXPECT_FALSE(open_);
    EXPECT_EQ(event["index"], message_["content"].size());
    message_["content"].push_back(event["content_block"]);
    open_ = true;
    input_.clear();
  }
  void add(const Json& event) {
    EXPECT_TRUE(open_);
    EXPECT_EQ(event["index"].get<size_t>() + 1, message_["content"].size());
    Json& block = message_["content"].back();
    const Json& delta = event["delta"];
    const std::string type = delta["type"];
    if (type == "input_json_delta") input_ += delta["partial_json"].get<std::string>();
    if (type == "signature_delta") block["signature"] = delta["signature"];
    for (const char* field : {"text", "thinking"})
      if (type == std::string(field) + "_delta")
        block[field] = block[field].get<std::string>() + delta[field].get<std::string>();
  }
  void stop(const Json& event) {
    EXPECT_EQ(event["index"].get<size_t>() + 1, message_["content"].size());
    Json& block = message_["content"].back();
    if (block["type"] == "tool_use") block["input"] = Json::parse(input_);
    open_ = false;
  }

  Json message_;
  std::string input_;
  bool open_ = false, ended_ = false;
};

Json assembled(const std::string& events) {
  Assembler assembler;
  std::istringstream in(events);
  std::string name, data, empty;
  while (std::getline(in, name) && std::getline(in, data) && std::getline(in, empty)) {
    EXPECT_TRUE(name.starts_with("event: ") && data.starts_with("data: ") && empty.empty());
    assembler.take(name.substr(7), Json::parse(data.substr(6)));
  }
  return assembler.message();
}

Tools tools() {
  Tools tools;
  tools.names = {"f", "g"};
  tools.choice = Tools::Choice::kAuto;
  return tools;
}

struct Answer {
  std::string whole, events;
};

AnswerEnd end_of_answer() { return {.counts = {.prompt = 9, .cached = 4, .answer = 3}}; }

// Formats a text that arrives in pieces of next() bytes and then ends with `last`.
template <typename Next>
Answer answer_of(std::string_view text, engine::AnswerPiece last, const Next& next) {
  const text::AnswerSyntax usual;
  const Tools offered = tools();
  const AnswerHead head = {.number = 7, .model = "tiny", .prompt_tokens = 9};
  const auto whole = anthropic_format()(head), stream = anthropic_format()(head);
  Choice choice(0, {.tools = &offered, .syntax = &usual});
  Answer answer = {.events = stream->begin(0)};
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = next();
    answer.events += stream->piece(choice.add({.text = std::string(text.substr(at, bytes))}));
    at += bytes;
  }
  answer.events += stream->piece(choice.add(std::move(last)));
  answer.events += stream->end(end_of_answer());
  const AnswerFormat::Frame frame = whole->frame(end_of_answer());
  answer.whole = frame.before + whole->choice(choice.all()) + frame.behind;
  return answer;
}

Answer at_once(std::string_view text, engine::AnswerPiece last) {
  return answer_of(text, std::move(last), [&] { return text.size(); });
}

engine::AnswerPiece last_piece(engine::Finish finish, std::string stop = "") {
  engine::AnswerPiece piece;
  piece.finish = finish;
  piece.stop = std::move(stop);
  return piece;
}

constexpr std::string_view kBusy =
    "<think>\nI look.\n</think>\n\nSo:\n<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": [1, "
    "\"a\"]}}</tool_call>\n<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";

TEST(AnthropicFormat, IsAMessageWithItsBlocks) {
  const Json message = Json::parse(at_once(kBusy, last_piece(engine::Finish::kEnd)).whole);
  ASSERT_EQ(message["content"].size(), 4U) << to_text(message);
  EXPECT_EQ(message["content"][0],
            Json::parse(R"({"type":"thinking","thinking":"I look.","signature":""})"));
  EXPECT_EQ(message["content"][1]["type"], "text");
  EXPECT_EQ(message["content"][2], Json::parse(R"({"type":"tool_use",
      "id":"toolu_0000000000000007_0","name":"f","input":{"x":[1,"a"]}})"));
  EXPECT_EQ(message["content"][3]["id"], "toolu_0000000000000007_1");
  EXPECT_EQ(message["id"], "msg_0000000000000007");
  EXPECT_EQ(message["stop_reason"], "tool_use");
  EXPECT_EQ(message["usage"], Json::parse(R"({"input_tokens":5,"cache_creation_input_tokens":0,
      "cache_read_input_tokens":4,"output_tokens":3})"));
}

TEST(AnthropicFormat, StreamsTheSameMessageHoweverItIsCut) {
  using engine::Finish;
  const std::vector<std::pair<std::string_view, engine::AnswerPiece>> answers = {
      {kBusy, last_piece(Finish::kEnd)},
      {"Hello there.", last_piece(Finish::kEnd)},
      {"  Hello\n", last_piece(Finish::kLength)},
      {"Hello", last_piece(Finish::kStop, "END")},
      {"<think>Only thoughts", last_piece(Finish::kLength)},
      {"<think>a</think>b", last_piece(Finish::kEnd)},
      {"<tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>", last_piece(Finish::kEnd)},
      {"\n \n", last_piece(Finish::kEnd)},
      {"", last_piece(Finish::kEnd)}};
  std::mt19937 random(5);
  for (const auto& [text, last] : answers)
    for (int i = 0; i < 50; ++i) {
      const Answer answer =
          answer_of(text, last, [&] { return 1 + random() % (1 + random() % 12); });
      ASSERT_EQ(assembled(answer.events), Json::parse(answer.whole)) << text;
    }
}

TEST(AnthropicFormat, SaysWhyTheAnswerEnded) {
  using engine::Finish;
  const auto ended = [](engine::AnswerPiece last) {
    const Json message = Json::parse(at_once("Hello", std::move(last)).whole);
    return to_text(message["stop_reason"]) + to_text(message["stop_sequence"]);
  };
  EXPECT_EQ(ended(last_piece(Finish::kEnd)), "\"end_turn\"null");
  EXPECT_EQ(ended(last_piece(Finish::kLength)), "\"max_tokens\"null");
  EXPECT_EQ(ended(last_piece(Finish::kStop, "X")), "\"stop_sequence\"\"X\"");
}

TEST(AnthropicFormat, HasNoBlockForWhiteSpaceAlone) {
  const Answer answer = at_once("\n ", last_piece(engine::Finish::kEnd));
  EXPECT_EQ(Json::parse(answer.whole)["content"], Json::array());
  EXPECT_EQ(answer.events.find("content_block_start"), std::string::npos);
}

TEST(AnthropicFormat, HasTheBeginningOfACallThatIsCutOff) {
  const Answer answer = at_once("<tool_call>{\"name\": \"f\", \"arguments\": {\"x\": 1",
                                last_piece(engine::Finish::kLength));
  const Json message = Json::parse(answer.whole);
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  ASSERT_EQ(message["content"].size(), 1U);
  EXPECT_EQ(message["content"][0]["input"], Json::object());
  EXPECT_NE(answer.events.find(R"("partial_json":"{\"x\": 1")"), std::string::npos)
      << answer.events;
}

TEST(AnthropicFormat, EndsAStreamThatBreaksWithAnError) {
  const auto format = anthropic_format()({.number = 1, .model = "tiny"});
  const ApiError busy = {.status = 503, .message = "full"};
  EXPECT_EQ(format->end({.error = busy}),
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
            "\"message\":\"full\"},\"request_id\":null}\n\n");
}

}  // namespace
}  // namespace kvick::server
