// Random schemas: an answer generated under the mask is an instance according to the test's own
// validator, and instances are accepted in every tokenization.

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

#include "text/schema/test_tokens.h"
#include "text/schema/test_validator.h"

namespace kvick::text {
namespace {

using Random = std::mt19937;
bool coin(Random& random) { return random() % 2 != 0; }

Json random_schema(Random& random, int depth);

Json random_object(Random& random, int depth) {
  Json s = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
  for (const char* name : {"b", "a", "é", "ab\"c"}) {
    if (coin(random)) continue;
    s["properties"][name] = random_schema(random, depth - 1);
    if (coin(random)) s["required"].push_back(name);
  }
  if (coin(random))
    s["additionalProperties"] = coin(random) ? Json(false) : random_schema(random, depth - 1);
  if (random() % 4 == 0) s["maxProperties"] = s["required"].size() + random() % 2;
  return s;
}

Json random_array(Random& random, int depth) {
  Json s = {{"type", "array"}};
  if (coin(random)) s["items"] = random_schema(random, depth - 1);
  if (random() % 3 == 0)
    s["prefixItems"] = {random_schema(random, depth - 1), random_schema(random, depth - 1)};
  if (coin(random)) s["minItems"] = random() % 3;
  if (coin(random)) s["maxItems"] = 2 + random() % 2;
  return s;
}

Json random_schema(Random& random, int depth) {
  switch (random() % (depth > 0 ? 9 : 5)) {
    case 0:
      return {{"type", coin(random) ? Json("boolean") : Json({"null", "string"})}};
    case 1: {
      const int least = static_cast<int>(random() % 200) - 100;
      return {
          {"type", "integer"}, {"minimum", least}, {"exclusiveMaximum", least + 1 + random() % 50}};
    }
    case 2:
      return {{"type", "number"},
              {coin(random) ? "minimum" : "maximum", static_cast<int>(random() % 90) / 8.0}};
    case 3:
      return {{"type", "string"}, {"minLength", random() % 3}, {"maxLength", 2 + random() % 3}};
    case 4:
      return {{"enum", {"abc", 1, 12, nullptr, "é\n", Json::array({1, "x"})}}};
    case 5:
      return {{"anyOf", {random_schema(random, depth - 1), random_schema(random, depth - 1)}}};
    case 6:
      return random_array(random, depth);
    case 7: {
      const Json object = random_object(random, depth);
      return {{"allOf", {object, {{"properties", {{"a", random_schema(random, 0)}}}}}}};
    }
    default:
      return random_object(random, depth);
  }
}

// Returns whether the token brings a text nearer to its end; choosing such tokens ends random
// texts.
bool closes(const JsonTokens& tokens, Token token) {
  const std::string piece = tokens.tokenizer->piece(token, false);
  return token == tokens.end || piece == "\"" || piece == "}" || piece == "]";
}

// Generates a text under the mask; nullopt if it did not end within 400 tokens.
std::optional<std::string> random_text(const JsonTokens& tokens, Constraint& constraint,
                                       Random& random) {
  std::string text;
  for (int i = 0; i < 400; ++i) {
    std::vector<Token> allowed = tokens.allowed(constraint);
    EXPECT_FALSE(allowed.empty()) << text;
    if (allowed.empty()) return std::nullopt;
    std::vector<Token> closing;
    std::copy_if(allowed.begin(), allowed.end(), std::back_inserter(closing),
                 [&](Token token) { return closes(tokens, token); });
    const std::vector<Token>& from = !closing.empty() && random() % 3 != 0 ? closing : allowed;
    const Token token = from[random() % from.size()];
    EXPECT_EQ(token == tokens.end && !constraint.complete(), false);
    if (token == tokens.end) return text;
    constraint.accept(token);
    text += tokens.tokenizer->piece(token, false);
  }
  return std::nullopt;
}

TEST(RandomSchema, WhatIsGeneratedIsAnInstance) {
  const JsonTokens tokens;
  int whole = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    Random random(seed);
    const Json schema = random_schema(random, 3);
    auto made = json_constraint(tokens.trie, schema);
    if (!made.ok()) {
      // Parts of an allOf may contradict each other.
      const std::string& why = made.error().message;
      ASSERT_TRUE(why.find("no JSON value matches it") != std::string::npos ||
                  why.find("beside enum or const") != std::string::npos)
          << why << " seed " << seed << schema;
      continue;
    }
    for (int i = 0; i < 8; ++i) {
      const auto constraint = (*made)->clone();
      const auto text = random_text(tokens, *constraint, random);
      if (!text) continue;
      const Json value = Json::parse(*text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << *text << " seed " << seed;
      ASSERT_TRUE(valid(value, schema)) << *text << " for " << schema << " seed " << seed;
      ++whole;
    }
  }
  EXPECT_GT(whole, 1000);
}

// Draws an instance of the schema; nullopt if the draw failed.
std::optional<Json> random_instance(const Json& s, Random& random, int depth = 0);

std::optional<Json> random_members(const Json& s, Random& random, int depth) {
  Json out = Json::object();
  for (const auto& [name, part] : s["properties"].items()) {
    const bool required = std::count(s["required"].begin(), s["required"].end(), name) > 0;
    if (!required && coin(random)) continue;
    const auto inside = random_instance(part, random, depth + 1);
    if (!inside) return std::nullopt;
    out[name] = *inside;
  }
  if (s.contains("additionalProperties") && coin(random))
    if (const auto inside = random_instance(s["additionalProperties"], random, depth + 1))
      out["other"] = *inside;
  return out;
}

std::optional<Json> random_instance(const Json& s, Random& random, int depth) {
  static const std::vector<Json> kSome = {nullptr, true, 1,       -20,           12.5,
                                          "",      "ab", "é\\\n", Json::array(), Json::object()};
  if (s.contains("anyOf")) return random_instance(s["anyOf"][random() % 2], random, depth + 1);
  if (s.contains("enum")) return s["enum"][random() % s["enum"].size()];
  if (s.is_object() && s.value("type", Json()) == "object") return random_members(s, random, depth);
  if (s.is_object() && s.value("type", Json()) == "array") {
    Json out = Json::array();
    for (size_t n = s.value("minItems", 0U) + random() % 2; out.size() < n;) {
      const Json prefix = s.value("prefixItems", Json::array());
      const auto item = random_instance(
          out.size() < prefix.size() ? prefix[out.size()] : s.value("items", Json(true)), random,
          depth + 1);
      if (!item) return std::nullopt;
      out.push_back(*item);
    }
    return out;
  }
  if (s.contains("exclusiveMaximum")) return s["minimum"].get<int>();
  return kSome[random() % kSome.size()];
}

// Splits the text into tokens, each chosen at random among those that fit.
std::vector<Token> random_cut(const JsonTokens& tokens, std::string_view text, Random& random) {
  std::vector<Token> out;
  while (!text.empty()) {
    std::vector<Token> fits;
    for (size_t i = 0; i < tokens.vocab; ++i) {
      const std::string piece = tokens.tokenizer->piece(static_cast<Token>(i), false);
      if (!piece.empty() && text.starts_with(piece)) fits.push_back(static_cast<Token>(i));
    }
    out.push_back(fits[random() % fits.size()]);
    text.remove_prefix(tokens.tokenizer->piece(out.back(), false).size());
  }
  return out;
}

TEST(RandomSchema, InstancesAreTakenHoweverTheyAreCutIntoTokens) {
  const JsonTokens tokens;
  int taken = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    Random random(seed);
    const Json schema = random_schema(random, 3);
    const auto made = json_constraint(tokens.trie, schema);
    if (!made.ok()) continue;
    for (int i = 0; i < 4; ++i) {
      const auto instance = random_instance(schema, random);
      if (!instance || !valid(*instance, schema)) continue;
      const auto constraint = (*made)->clone();
      const std::string text = instance->dump(coin(random) ? -1 : 2);
      for (const Token token : random_cut(tokens, text, random)) {
        const std::vector<Token> allowed = tokens.allowed(*constraint);
        ASSERT_TRUE(std::binary_search(allowed.begin(), allowed.end(), token))
            << text << " for " << schema << " seed " << seed;
        constraint->accept(token);
      }
      ASSERT_TRUE(constraint->complete()) << text << " for " << schema;
      ++taken;
    }
  }
  EXPECT_GT(taken, 300);
}

}  // namespace
}  // namespace kvick::text
