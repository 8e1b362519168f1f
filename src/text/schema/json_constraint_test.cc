#include "text/schema/json_constraint.h"

#include <gtest/gtest.h>
#include <random>
#include <thread>

#include "text/schema/test_schema.h"
#include "text/schema/test_tokens.h"

namespace kvick::text {
namespace {

const char* const kSchema = R"({"type": "object",
  "properties": {"ab": {"type": "string"}, "n": {"type": "array", "items": {"type": "number"}},
                 "é": {"enum": ["true", "abc", "€"]}, "s": {"type": "string", "maxLength": 5}},
  "required": ["ab"], "additionalProperties": true})";

TEST(JsonConstraint, MasksWhatTheTokensBytesDoNotLeadOnWith) {
  const JsonTokens tokens;
  const auto constraint = tokens.constraint(Json::parse(kSchema));
  SchemaTexts texts(kSchema);
  const std::string answer = R"({"ab": "x\"é", "n": [0.12, 2],"é":"€","s":"a€b","x":{"t":true}})";
  std::string so_far;
  for (const Token next : tokens.tokenizer->encode(answer + "!", false, false)) {
    std::vector<Token> twin;
    for (size_t i = 0; i < tokens.vocab; ++i) {
      const std::string piece = tokens.tokenizer->piece(static_cast<Token>(i), false);
      if (!piece.empty() && texts.begins(so_far + piece)) twin.push_back(static_cast<Token>(i));
    }
    if (texts.takes(so_far)) twin.push_back(tokens.end);
    ASSERT_EQ(tokens.allowed(*constraint), twin) << so_far;
    ASSERT_EQ(constraint->complete(), texts.takes(so_far)) << so_far;
    if (so_far == answer) break;
    constraint->accept(next);
    so_far += tokens.tokenizer->piece(next, false);
  }
  EXPECT_TRUE(constraint->complete());
}

TEST(JsonConstraint, LeavesOnlyTheEndBehindAWholeAnswer) {
  const JsonTokens tokens;
  const auto constraint = tokens.constraint({{"type", "object"}});
  EXPECT_FALSE(constraint->complete());
  for (const char byte : {'{', '}'}) constraint->accept(byte);
  EXPECT_TRUE(constraint->complete());
  EXPECT_EQ(tokens.allowed(*constraint), std::vector<Token>{tokens.end});
  constraint->accept(tokens.end);
  EXPECT_EQ(tokens.allowed(*constraint), std::vector<Token>{tokens.end});
}

TEST(JsonConstraint, CallsOfManyToolsShareTheirBeginning) {
  Json any = Json::array();
  for (int i = 0; i < 2000; ++i) {
    const Json name = {{"enum", Json::array({fmt::format("t{}", i)})}};
    const Json arguments = {{"type", i % 2 == 0 ? "null" : "boolean"}};
    any.push_back({{"type", "object"},
                   {"properties", {{"name", name}, {"arguments", arguments}}},
                   {"required", Json::array({"name", "arguments"})},
                   {"additionalProperties", false}});
  }
  expect_texts(Json({{"anyOf", any}}).dump(),
               {R"({"name":"t0","arguments":null})", R"({ "name": "t1999", "arguments": true })"},
               {R"({"name":"t1","arguments":null})", R"({"name":"t2000","arguments":null})",
                R"({"name":"t0"})", R"({"name":"t0","arguments":null,"a":1})",
                R"({"arguments":null,"name":"t0"})"});
}

TEST(JsonConstraint, ANumberMayEndOrGoOn) {
  const JsonTokens tokens;
  const auto constraint = tokens.constraint({{"type", "integer"}, {"maximum", 12}});
  constraint->accept('1');
  EXPECT_TRUE(constraint->complete());
  EXPECT_EQ(tokens.allowed(*constraint), (std::vector<Token>{'0', '1', '2', tokens.end}));
}

TEST(JsonConstraint, ClonesGoTheirOwnWays) {
  const JsonTokens tokens;
  const auto first = tokens.constraint(Json::parse(R"({"enum": ["a", "b"]})"));
  first->accept('"');
  const auto second = first->clone();
  first->accept('a');
  EXPECT_EQ(tokens.allowed(*first), std::vector<Token>{'"'});
  EXPECT_EQ(tokens.allowed(*second), (std::vector<Token>{'a', 'b'}));
}

TEST(JsonConstraint, ClonesMayBeOnDifferentThreads) {
  const JsonTokens tokens;
  const auto constraint = tokens.constraint(Json::parse(kSchema));
  const std::vector<Token> answer =
      tokens.tokenizer->encode(R"({"ab":"abc","n":[1,2,3]})", false, false);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, own = std::shared_ptr<Constraint>(constraint->clone())] {
      for (const Token token : answer) {
        const std::vector<Token> allowed = tokens.allowed(*own);
        EXPECT_EQ(std::count(allowed.begin(), allowed.end(), token), 1);
        own->accept(token);
      }
      EXPECT_TRUE(own->complete());
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(JsonConstraint, TakingWhatWasMaskedIsABug) {
  const JsonTokens tokens;
  EXPECT_THROW(tokens.constraint({{"type", "object"}})->accept('x'), base::Bug);
  EXPECT_THROW(tokens.constraint({{"type", "object"}})->accept(tokens.end), base::Bug);
  EXPECT_THROW(tokens.constraint({{"type", "object"}})->accept(tokens.end - 1), base::Bug);
}

TEST(JsonConstraint, SentencePiecesFirstSpaceIsTaken) {
  Vocabulary v = sentence_vocabulary({{"▁", 0}, {"▁{", 1}, {"▁\"", 2}});
  const auto tokenizer = make(std::move(v));
  const auto trie = std::move(TokenTrie::make(*tokenizer)).value();
  auto constraint = (*json_constraint(trie, {{"type", "object"}}))->clone();
  std::vector<float> logits(trie->vocab(), 1.0F);
  constraint->mask(logits);
  EXPECT_FALSE(std::isinf(logits[260]));
  EXPECT_TRUE(std::isinf(logits[261]));
  EXPECT_TRUE(std::isinf(logits[0]));
}

TEST(JsonConstraint, WhatCannotBeSpelledIsLeftOutOrRefused) {
  Vocabulary v = byte_vocabulary({});
  v.pieces['z'] = "zz";  // now no token is this byte alone
  add_piece(v, "</s>", TokenKind::kControl);
  v.eos = 256;
  const auto tokenizer = make(std::move(v));
  const auto trie = std::move(TokenTrie::make(*tokenizer)).value();
  const auto refused = json_constraint(trie, {{"const", "z"}});
  ASSERT_FALSE(refused.ok());
  auto constraint = (*json_constraint(trie, {{"type", "string"}}))->clone();
  constraint->accept('"');
  std::vector<float> logits(trie->vocab(), 1.0F);
  constraint->mask(logits);
  EXPECT_TRUE(std::isinf(logits['z']));
  EXPECT_FALSE(std::isinf(logits['y']));
}

TEST(JsonConstraint, WhatIsLeftCanBeTakenAtTheDeepestLevelToo) {
  const JsonTokens tokens;
  for (const char* schema :
       {R"({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"type": "string"}]}})",
        R"({"anyOf": [{"type": "array", "items": {"$ref": "#"}}, {"maxLength": 40}]})", "true"}) {
    const auto constraint = tokens.constraint(Json::parse(schema));
    const auto take = [&](Token wanted) {
      bool found = false;
      for (const Token token : tokens.allowed(*constraint)) {
        constraint->clone()->accept(token);
        found |= token == wanted;
      }
      if (found) constraint->accept(wanted);
      return found;
    };
    for (int i = 0; take('[') && i < 100;) ++i;
    if (take('"')) {
      EXPECT_TRUE(take('a'));
    }
    take('a');
  }
}

TEST(JsonConstraint, MasksAreTheSameNearTheEndOfALimitedString) {
  const JsonTokens tokens;
  const char* schema = R"({"type": "string", "minLength": 3, "maxLength": 20})";
  const auto constraint = tokens.constraint(Json::parse(schema));
  SchemaTexts texts(schema);
  std::string text;
  for (const char byte : std::string("\"aaaaaaaaaaaaaaaaaaaa")) {
    std::vector<Token> twin;
    for (size_t i = 0; i < tokens.vocab; ++i) {
      const std::string piece = tokens.tokenizer->piece(static_cast<Token>(i), false);
      if (!piece.empty() && texts.begins(text + piece)) twin.push_back(static_cast<Token>(i));
    }
    ASSERT_EQ(tokens.allowed(*constraint), twin) << text;
    constraint->accept(byte);
    text += byte;
  }
}

// The number of readings doubles with every level, and each text has a state of its own. The memory
// held stays bounded nevertheless, and the answer is an instance.
TEST(JsonConstraint, AnAmbiguousSchemaStaysWithinItsBounds) {
  const JsonTokens tokens;
  const auto constraint = tokens.constraint(Json::parse(R"({"$ref": "#/$defs/x", "$defs": {
      "x": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "null"}]},
      "a": {"type": "array", "items": {"$ref": "#/$defs/x"}, "maxItems": 9},
      "b": {"type": "array", "items": {"$ref": "#/$defs/x"}, "maxItems": 8}}})"));
  std::string text;
  for (int i = 0; i < 40; ++i) {
    ASSERT_FALSE(tokens.allowed(*constraint).empty());
    constraint->accept('[');
    text += '[';
  }
  for (int i = 0; i < 40; ++i) {
    const std::vector<Token> allowed = tokens.allowed(*constraint);
    ASSERT_EQ(std::count(allowed.begin(), allowed.end(), Token{']'}), 1) << i;
    constraint->accept(']');
  }
  EXPECT_TRUE(constraint->complete());
}

TEST(JsonConstraint, FormatsThatAreNotEnforcedMayStandBesideListedValues) {
  expect_texts(R"({"type": "string", "format": "enum", "enum": ["a", "b"]})", {"\"a\"", "\"b\""},
               {"\"c\"", "1"});
  EXPECT_EQ(schema_error(R"({"const": "2024-01-01", "format": "date"})"),
            "the schema at #: format beside enum or const is not supported; leave it out");
}

TEST(JsonConstraint, PatternsChooseAmongListedValues) {
  expect_texts(R"({"enum": ["ab", "b", "xab", "é1", 1, null, ["b"]], "pattern": "^(ab|.1)$"})",
               {"\"ab\"", "\"é1\"", "1", "null", "[\"b\"]"}, {"\"b\"", "\"xab\""});
  expect_texts(R"({"allOf": [{"pattern": "^a"}, {"pattern": "b$"},
                             {"enum": ["ab", "a", "b", "acb"]}], "maxLength": 2})",
               {"\"ab\""}, {"\"a\"", "\"b\"", "\"acb\""});
  expect_texts(R"({"uniqueItems": true, "items": {"enum": ["a", "ab", "b"], "pattern": "a"}})",
               {R"(["a","ab"])", "[]"}, {R"(["b"])", R"(["a","a"])"});
  expect_texts(R"({"enum": [1, 2], "pattern": "(?<=a)b"})", {"1", "2"}, {});
  EXPECT_EQ(schema_error(R"({"const": "ab", "pattern": "b"})"), "no error");
  EXPECT_EQ(schema_error(R"({"const": "ab", "pattern": "c"})"),
            "the schema cannot be used: no JSON value matches it, within 64 levels of nesting");
  EXPECT_EQ(schema_error(R"({"const": "ab", "pattern": "(?<=a)b"})"),
            "the schema at #: pattern: a look-around or a flag is not supported at byte 0 of "
            "'(?<=a)b'");
  const Json slow = {{"const", std::string(5000, 'a')}, {"pattern", "(a?){900}"}};
  EXPECT_EQ(schema_error(slow.dump()),
            "the schema at #: the values beside pattern are too long; leave it out");
}

TEST(JsonConstraint, UniqueItemsChoosesAmongListedValues) {
  expect_texts(R"({"uniqueItems": true, "enum": [[1, 2], [1, 1.0], [true, 1, "1"], [], "aa",
                   [{"a": 1, "b": [2]}, {"b": [2], "a": 1}], [[1, 2], [2, 1]]]})",
               {"[1,2]", R"([true,1,"1"])", "[]", "\"aa\"", "[[1,2],[2,1]]"},
               {"[1,1.0]", R"([{"a":1,"b":[2]},{"b":[2],"a":1}])"});
  EXPECT_EQ(schema_error(R"({"const": ["a", "a"], "uniqueItems": true})"),
            "the schema cannot be used: no JSON value matches it, within 64 levels of nesting");
}

TEST(JsonConstraint, MultiplesOfALargeStepMayBeFew) {
  expect_texts(
      R"({"type": "integer", "multipleOf": 999983, "minimum": -1000000, "maximum": 10000000})",
      {"-999983", "0", "999983", "9999830"},
      {"-1999966", "10999813", "1", "999982", "-0", "999983.0", "99998", "9999830000"});
  expect_texts(R"({"multipleOf": 7919, "exclusiveMinimum": 7919, "exclusiveMaximum": 23757})",
               {"15838"}, {"7919", "23757", "0", "15838.0"});
  EXPECT_EQ(
      schema_error(R"({"type": "integer", "multipleOf": 999983, "minimum": 1, "maximum": 5})"),
      "the schema cannot be used: no JSON value matches it, within 64 levels of nesting");
}

TEST(JsonConstraint, MultiplesAreThoseWithinTheirBounds) {
  for (const double least : {-21.0, -20.5, -7.0, 0.0, 6.5, 7.0})
    for (const double most : {-7.0, -6.5, 0.0, 13.5, 14.0})
      for (const bool strict : {false, true}) {
        const Json schema = {{"type", "integer"},
                             {"multipleOf", 7},
                             {strict ? "exclusiveMinimum" : "minimum", least},
                             {strict ? "exclusiveMaximum" : "maximum", most}};
        const auto fits = [&](int i) {
          return i % 7 == 0 && (strict ? i > least && i < most : i >= least && i <= most);
        };
        bool any = false;
        for (int i = -30; i <= 30; ++i) any = any || fits(i);
        if (!any) {
          EXPECT_NE(schema_error(schema.dump()), "no error") << schema;
          continue;
        }
        SchemaTexts texts(schema.dump());
        for (int i = -30; i <= 30; ++i)
          EXPECT_EQ(texts.takes(std::to_string(i)), fits(i)) << i << " " << schema;
      }
}

// Pydantic's set[Annotated[int, Field(ge=1, le=4)]].
TEST(JsonConstraint, IntegersOfASmallRangeMayHaveToDiffer) {
  expect_texts(
      R"({"type": "array", "uniqueItems": true, "items": {"type": "integer", "minimum": 1, "maximum": 4}})",
      {"[]", "[4,1]", "[1,2,3,4]"}, {"[0]", "[5]", "[1,1]", "[2,1,2]", "[1.5]"});
  expect_texts(
      R"({"uniqueItems": true, "items": {"type": ["integer", "null"], "exclusiveMinimum": -2.5,
          "exclusiveMaximum": 3, "multipleOf": 2}})",
      {"[-2,0,2]", "[null,2]"}, {"[1]", "[-4]", "[2,2]", "[null,null]", "[4]"});
  const std::string refused =
      "the schema at #: uniqueItems is supported for items of at most about 10 values only, of an "
      "enum, const, boolean, null or a range of integers; leave it out";
  for (const char* items :
       {R"({"type": "integer", "minimum": 1})",
        R"({"type": "integer", "minimum": 0, "maximum": 60})",
        R"({"type": "integer", "minimum": 100000000000000000, "maximum": 100000000000000001})",
        R"({"type": "integer", "minimum": 1, "maximum": 30})", R"({"type": "string"})"})
    EXPECT_EQ(schema_error(fmt::format(R"({{"uniqueItems": true, "items": {}}})", items)), refused)
        << items;
}

}  // namespace
}  // namespace kvick::text
