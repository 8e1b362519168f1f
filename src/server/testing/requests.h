#pragma once
// Parses requests made from a few fields, and their errors.

#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

#include "server/openai/chat_request.h"
#include "server/openai/completion_request.h"

namespace kvick::server {

inline Json object_of(const char* name, const char* value) {
  Json object;
  object[name] = Json::parse(value);
  return object;
}

// Refuses unknown fields, unless a test passes its own UnknownFields.
inline ApiResult<CompletionRequest> parse_completion(const Json& body) {
  UnknownFields unknown(true);
  return parse_completion(body, unknown);
}
inline ApiResult<ChatRequest> parse_chat(const Json& body) {
  UnknownFields unknown(true);
  return parse_chat(body, unknown);
}

inline CompletionRequest completion(std::string_view fields) {
  const auto body = parse_json(fmt::format("{{\"prompt\":\"p\"{}}}", fields));
  EXPECT_TRUE(body.ok());
  auto request = parse_completion(*body);
  EXPECT_TRUE(request.ok()) << request.error().message;
  return *std::move(request);
}

// Returns the error of a request with these fields, or nothing if it is accepted.
inline std::optional<ApiError> refusal(std::string_view fields, bool chat = false) {
  const auto body = parse_json(fmt::format(
      "{{{}{}}}", chat ? R"("messages":[{"role":"user","content":"x"}])" : "\"prompt\":\"p\"",
      fields));
  EXPECT_TRUE(body.ok()) << fields;
  if (chat) {
    const auto request = parse_chat(*body);
    return request.ok() ? std::nullopt : std::optional(request.error());
  }
  const auto request = parse_completion(*body);
  return request.ok() ? std::nullopt : std::optional(request.error());
}

// A refused request: the wrong field, and words that the error must contain so that it says what to
// do. The rest of the sentence is free.
struct Refused {
  std::string fields;
  const char* param;
  std::vector<const char*> says;
};

inline void expect_refused(const std::vector<Refused>& table, bool chat = false) {
  for (const Refused& one : table) {
    SCOPED_TRACE(one.fields.substr(0, 200));
    const std::optional<ApiError> error = refusal(one.fields, chat);
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->status, 400U);
    EXPECT_EQ(error->param, one.param);
    EXPECT_EQ(error->message.find('\n'), std::string::npos) << error->message;
    for (const char* words : one.says)
      EXPECT_NE(error->message.find(words), std::string::npos) << error->message;
  }
}

// Returns the unknown fields of a request with these fields.
inline std::vector<std::string> ignored(std::string_view fields, bool chat = false) {
  const auto body = parse_json(fmt::format(
      "{{{}{}}}", chat ? R"("messages":[{"role":"user","content":"x"}])" : "\"prompt\":\"p\"",
      fields));
  EXPECT_TRUE(body.ok()) << fields;
  UnknownFields unknown(false);
  const bool taken = chat ? parse_chat(*body, unknown).ok() : parse_completion(*body, unknown).ok();
  EXPECT_TRUE(taken) << fields;
  return unknown.names();
}
using Names = std::vector<std::string>;

}  // namespace kvick::server
