#include "server/responses/responses_format.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "server/testing/service.h"

namespace kvick::server {
namespace {

ResponsesFrame frame_of(std::shared_ptr<ResponseStore> store = nullptr) {
  return {.echo = {{"store", store != nullptr}, {"tools", Json::array()}},
          .items = Json::parse(R"([{"type":"message","role":"user","content":[]},
              {"type":"function_call_output","call_id":"c","output":"x"},
              {"id":"mine","type":"reasoning","content":[]}])"),
          .namespaces = {{"files__read", {.space = "files", .name = "read"}}},
          .responses = {.store = std::move(store), .owner = 3},
          .tokenizer = &test_engine().tokenizer()};
}

std::unique_ptr<AnswerFormat> format_of(std::shared_ptr<ResponseStore> store = nullptr) {
  return responses_format(frame_of(std::move(store)))(
      {.number = 0xAB, .model = "tiny", .created = 1000});
}

AnswerEnd end_of() { return {.counts = {.prompt = 5, .cached = 2, .answer = 3}}; }

Json whole(const ChoiceText& all, std::shared_ptr<ResponseStore> store = nullptr) {
  const auto format = format_of(std::move(store));
  const AnswerFormat::Frame frame = format->frame(end_of());
  return Json::parse(frame.before + format->choice(all) + frame.behind);
}

// Returns the events of a stream; each has its type as name and as field.
std::vector<Json> events_of(const std::string& text) {
  std::vector<Json> events;
  std::string name;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("event: ")) name = line.substr(7);
    if (!line.starts_with("data: ")) continue;
    events.push_back(Json::parse(line.substr(6)));
    EXPECT_EQ(events.back()["type"], name);
  }
  return events;
}

std::vector<Json> stream(const std::vector<ChoiceText>& pieces, const AnswerEnd& end = end_of()) {
  const auto format = format_of();
  std::string text = format->begin(0);
  for (const ChoiceText& piece : pieces) text += format->piece(piece);
  return events_of(text + format->end(end));
}

ChoiceText answer_of(std::string reasoning, std::string content, std::vector<ToolCall> calls,
                     std::string reason = "stop") {
  return {.content = std::move(content),
          .reasoning = std::move(reasoning),
          .calls = std::move(calls),
          .finish_reason = std::move(reason)};
}

TEST(ResponsesFormat, WritesAnAnswerWhole) {
  const Json answer = whole(answer_of("think", "say", {{"f", R"({"x":1})"}}, "tool_calls"));
  EXPECT_EQ(answer["id"], "resp_00000000000000ab");
  EXPECT_EQ(answer["object"], "response");
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(answer["created_at"], 1000);
  EXPECT_EQ(answer["output"], Json::parse(R"([
      {"id":"rs_00000000000000ab_0","type":"reasoning","status":"completed","summary":[],
       "content":[{"type":"reasoning_text","text":"think"}]},
      {"id":"msg_00000000000000ab_1","type":"message","status":"completed","role":"assistant",
       "content":[{"type":"output_text","text":"say","annotations":[],"logprobs":[]}]},
      {"id":"fc_00000000000000ab_2","type":"function_call","status":"completed",
       "call_id":"call_00000000000000ab_2","name":"f","arguments":"{\"x\":1}"}])"));
  EXPECT_EQ(answer["usage"]["input_tokens"], 5);
  EXPECT_EQ(answer["usage"]["input_tokens_details"]["cached_tokens"], 2);
  EXPECT_EQ(answer["usage"]["output_tokens"], 3);
  EXPECT_EQ(answer["usage"]["total_tokens"], 8);
  EXPECT_GT(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
  EXPECT_LE(answer["usage"]["output_tokens_details"]["reasoning_tokens"], 3);
}

TEST(ResponsesFormat, SaysThatTheNumberOfTokensCutAnAnswer) {
  const Json text = whole(answer_of("", "so f", {}, "length"));
  EXPECT_EQ(text["status"], "incomplete");
  EXPECT_EQ(text["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(text["output"][0]["status"], "incomplete");
  const Json call = whole(answer_of("", "say", {{"f", "{\"x"}}, "length"));
  EXPECT_EQ(call["output"][0]["status"], "completed");
  EXPECT_EQ(call["output"][1]["status"], "incomplete");
}

TEST(ResponsesFormat, AnswersWithAMessageThoughItHasNoText) {
  EXPECT_EQ(whole(answer_of("", "", {}))["output"][0]["content"][0]["text"], "");
  const std::vector<Json> events = stream({answer_of("", "", {})});
  EXPECT_EQ(events.back()["response"]["output"].size(), 1U);
}

TEST(ResponsesFormat, StreamsAFailure) {
  AnswerEnd end = end_of();
  end.error = ApiError{.status = 500, .message = "lost"};
  const std::vector<Json> events = stream({{.content = "be"}}, end);
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_EQ(events.back()["response"]["status"], "failed");
  EXPECT_EQ(events.back()["response"]["error"]["message"], "lost");
  EXPECT_EQ(events.back()["response"]["output"][0]["status"], "incomplete");
}

TEST(ResponsesFormat, BlamesTheFieldsOfItsOwnApi) {
  const auto format = format_of();
  EXPECT_EQ(format->prompt_field(), "input");
  const HttpResponse error = format->error({.message = "m", .param = "max_tokens"});
  EXPECT_EQ(Json::parse(error.body)["error"]["param"], "max_output_tokens");
}

TEST(ResponsesFormat, KeepsWhatItAnsweredWithAnIdForEachItem) {
  const auto store = std::make_shared<ResponseStore>(1 << 20);
  const Json answer = whole(answer_of("", "say", {}), store);
  const auto kept = store->find("resp_00000000000000ab", 3);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(Json::parse(kept->response), answer);
  const Json input = Json::parse(kept->input);
  EXPECT_EQ(input[0]["id"], "msg_00000000000000ab_in0");
  EXPECT_EQ(input[1]["id"], "fco_00000000000000ab_in1");
  EXPECT_EQ(input[2]["id"], "mine");
}

TEST(ResponsesFormat, GivesACallTheNamespaceOfItsFunction) {
  const ChoiceText all = answer_of("", "", {{"files__read", "{}"}, {"read", "{}"}});
  const Json answer = whole(all);
  EXPECT_EQ(answer["output"][0]["name"], "read");
  EXPECT_EQ(answer["output"][0]["namespace"], "files");
  EXPECT_EQ(answer["output"][1]["name"], "read");
  EXPECT_FALSE(answer["output"][1].contains("namespace"));
  EXPECT_EQ(stream({all}).back()["response"]["output"], answer["output"]);
}

TEST(ResponsesFormat, KeepsNoAnswerThatFailed) {
  const auto store = std::make_shared<ResponseStore>(1 << 20);
  const auto format = format_of(store);
  format->begin(0);
  AnswerEnd end = end_of();
  end.error = ApiError{.message = "lost"};
  format->end(end);
  EXPECT_EQ(store->size(), 0U);
}

// Checks what clients rely on in every stream. Returns the output as clients assemble it.
Json checked_output(const std::vector<Json>& events) {
  RC_ASSERT(events.size() >= 3);
  RC_ASSERT(events[0]["type"] == "response.created");
  RC_ASSERT(events[1]["type"] == "response.in_progress");
  Json output = Json::array();
  std::string open, text;  // id and text of the open item
  for (size_t i = 0; i < events.size(); ++i) {
    const Json& event = events[i];
    const auto type = event["type"].get<std::string>();
    RC_ASSERT(event["sequence_number"] == i);
    if (event.contains("output_index")) RC_ASSERT(event["output_index"] == output.size());
    if (event.contains("item_id")) RC_ASSERT(event["item_id"] == open);
    if (event.contains("content_index")) RC_ASSERT(event["content_index"] == 0);
    if (type == "response.output_item.added") {
      RC_ASSERT(open.empty() && event["item"]["status"] == "in_progress");
      open = event["item"]["id"].get<std::string>();
      text.clear();
    } else if (type.ends_with(".delta")) {
      text += event["delta"].get<std::string>();
    } else if (type.ends_with("_text.done")) {
      RC_ASSERT(event["text"] == text);
    } else if (type == "response.function_call_arguments.done") {
      RC_ASSERT(event["arguments"] == text);
    } else if (type == "response.content_part.done") {
      RC_ASSERT(event["part"]["text"] == text);
    } else if (type == "response.output_item.done") {
      RC_ASSERT(event["item"]["id"] == open);
      output.push_back(event["item"]);
      open.clear();
    }
  }
  RC_ASSERT(open.empty());
  RC_ASSERT(events.back()["response"]["output"] == output);
  return output;
}

// Cuts an answer into pieces as they arrive: thoughts, text and calls in this order.
std::vector<ChoiceText> cut(const ChoiceText& all) {
  std::vector<ChoiceText> pieces;
  for (auto part : {&ChoiceText::reasoning, &ChoiceText::content})
    for (size_t at = 0; at < (all.*part).size();) {
      const auto size = static_cast<size_t>(*rc::gen::inRange(1, 4));
      pieces.emplace_back();
      pieces.back().*part = (all.*part).substr(at, size);
      at += size;
    }
  for (const ToolCall& call : all.calls) {
    if (pieces.empty() || *rc::gen::arbitrary<bool>()) pieces.emplace_back();
    pieces.back().calls.push_back(call);
  }
  if (pieces.empty() || *rc::gen::arbitrary<bool>()) pieces.emplace_back();
  pieces.back().finish_reason = all.finish_reason;
  return pieces;
}

TEST(ResponsesFormat, StreamsWhatItAnswersWholeWhereverItIsCut) {
  EXPECT_TRUE(rc::check("a stream's output is the whole answer's", [] {
    const auto text = [] {
      return std::string(static_cast<size_t>(*rc::gen::inRange(0, 9)), *rc::gen::inRange('a', 'd'));
    };
    std::vector<ToolCall> calls;
    for (int i = *rc::gen::inRange(0, 3); i > 0; --i) calls.push_back({"f", R"({"x":1})"});
    const std::string reason = *rc::gen::elementOf(std::vector<std::string>{"stop", "length"});
    if (reason == "length" && !calls.empty() && *rc::gen::arbitrary<bool>())
      calls.back().arguments = "{\"x";
    const ChoiceText all = answer_of(text(), text(), calls, reason);
    const std::vector<Json> events = stream(cut(all));
    const Json answer = whole(all);
    RC_ASSERT(checked_output(events) == answer["output"]);
    RC_ASSERT(events.back()["response"] == answer);
    RC_ASSERT(events.back()["type"] ==
              (reason == "length" ? "response.incomplete" : "response.completed"));
  }));
}

TEST(ResponsesFormat, StreamsThoughtsAndTextInAnyOrder) {
  EXPECT_TRUE(rc::check("as they come", [] {
    std::vector<ChoiceText> pieces;
    std::string said;
    for (int i = *rc::gen::inRange(0, 12); i > 0; --i) {
      pieces.emplace_back();
      if (*rc::gen::arbitrary<bool>()) pieces.back().reasoning = "t";
      if (*rc::gen::arbitrary<bool>()) said += pieces.back().content = "s";
      if (*rc::gen::inRange(0, 4) == 0) pieces.back().calls.push_back({"f", "{}"});
    }
    std::string text;
    for (const Json& item : checked_output(stream(pieces)))
      if (item["type"] == "message") text += item["content"][0]["text"].get<std::string>();
    RC_ASSERT(text == said);
  }));
}

}  // namespace
}  // namespace kvick::server
