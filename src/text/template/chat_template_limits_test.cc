// A hostile template ends with an Error, never with a crash, a hang or unbounded memory.
#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>
#include <thread>

#include "base/memory.h"
#include "text/template/chat_template.h"

namespace kvick::text {
namespace {

using nlohmann::ordered_json;

std::string repeat(const std::string& s, size_t times) {
  std::string out;
  for (size_t i = 0; i < times; ++i) out += s;
  return out;
}

// Returns the error's message, or "rendered " and the text.
std::string outcome(const std::string& source,
                    const ordered_json& context = ordered_json::object()) {
  RenderOptions small;
  small.max_steps = 300'000;
  small.max_output_bytes = 1 << 20;
  small.max_memory_bytes = 4 << 20;
  auto parsed = ChatTemplate::parse(source);
  if (!parsed.ok()) return parsed.error().message;
  auto text = parsed->render(context, small);
  return text.ok() ? "rendered " + text->substr(0, 40) : text.error().message;
}

void expect_refused(const std::string& source, const std::string& why) {
  std::string got = outcome(source);
  EXPECT_NE(got.find(why), std::string::npos) << source.substr(0, 80) << " -> " << got;
}

TEST(ChatTemplateLimits, StopsLoopsThatDoNotEnd) {
  expect_refused("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
                 "steps of work");
  expect_refused(
      "{% macro m() %}{% for i in range(9) %}{{ m() }}{% endfor %}{% endmacro %}{{ m() }}",
      "nested");
}

TEST(ChatTemplateLimits, StopsValuesThatGrow) {
  const std::string doubling = "{% for i in range(99) %}{% set ns.x = ns.x + ns.x %}{% endfor %}";
  expect_refused("{% set ns = namespace(x='ab') %}" + doubling, "bytes");
  expect_refused("{% set ns = namespace(x=[1, 2]) %}" + doubling, "bytes");
  expect_refused("{{ 'x' * 99999999999 }}", "bytes");
  expect_refused("{{ [1] * 9223372036854775807 }}", "bytes");
  expect_refused("{{ ('a' * 9999) | replace('', 'b' * 9999) }}", "bytes");
  expect_refused("{{ (['a'] * 9999) | join('b' * 9999) }}", "bytes");
  expect_refused("{{ ('a' * 9999).replace('a', 'b' * 9999) }}", "bytes");
  expect_refused("{{ 'a'.ljust(9999999999) }}", "bytes");
  expect_refused("{{ '%9999999d' % 1 }}", "above");
  expect_refused("{{ [1] | batch(9999999999, 0) | list }}", "bytes");
  expect_refused("{{ [1] | slice(9999999999) | list }}", "bytes");
  expect_refused("{{ ('a b ' * 9999) | wordwrap(1, wrapstring='x' * 9999) }}", "bytes");
  expect_refused("{{ ([['a', 'b' * 999999]] * 9) | urlencode }}", "bytes");
  expect_refused("{{ range(100001) }}", "limit");
  expect_refused("{{ range(-9223372036854775807, 9223372036854775807) }}", "limit");
}

TEST(ChatTemplateLimits, StopsOutputThatGrows) {
  expect_refused("{% for i in range(99999) %}" + repeat("x", 999) + "{% endfor %}",
                 "writes more than");
  expect_refused(
      "{% set t %}{% for i in range(99999) %}" + repeat("x", 999) + "{% endfor %}{% endset %}",
      "writes more than");
}

TEST(ChatTemplateLimits, FreesWhatIsNoLongerUsed) {
  // Each iteration allocates 1 MB and drops it; the limit is 4 MB.
  RenderOptions options;
  options.max_memory_bytes = 4 << 20;
  auto parsed =
      ChatTemplate::parse("{% for i in range(100) %}{% set x = 'y' * 1000000 %}{% endfor %}done");
  ASSERT_TRUE(parsed.ok());
  auto text = parsed->render(ordered_json::object(), options);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "done");
}

TEST(ChatTemplateLimits, RefusesSourcesNestedTooDeep) {
  for (const char* open :
       {"(", "[", "{1:", "-", "not ", "a[", "f(", "'' ~ (", "1 if 1 else ", "x|f("})
    expect_refused("{{ " + repeat(open, 100'000) + " }}", "chat template, line 1");
  expect_refused(repeat("{% if 1 %}", 50'000), "nested");
  expect_refused(repeat("{% for x in y %}", 50'000), "nested");
  expect_refused("{{ 1" + repeat(" + 1", 50'000) + " }}", "deep");
  expect_refused("{{ a" + repeat(".a", 50'000) + " }}", "deep");
  expect_refused("{{ a" + repeat("|string", 50'000) + " }}", "deep");
  expect_refused("{% set " + repeat("(", 50'000) + "a" + repeat(")", 50'000) + " = 1 %}", "nested");
  expect_refused(std::string(2 << 20, 'x'), "bytes");
}

TEST(ChatTemplateLimits, RefusesValuesNestedTooDeep) {
  expect_refused(
      "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}",
      "nested");
  ordered_json deep = 1;
  for (int i = 0; i < 5000; ++i) deep = ordered_json::array({std::move(deep)});
  EXPECT_NE(outcome("{{ x }}", {{"x", std::move(deep)}}).find("nested"), std::string::npos);
}

TEST(ChatTemplateLimits, FreesValuesThatHoldThemselves) {
  // The address sanitizer reports a leak if these cycles are not freed.
  EXPECT_EQ(
      outcome(
          "{% set ns = namespace() %}{% set ns.me = [ns] %}{% macro m() %}{{ ns }}{% endmacro %}"
          "{% set ns.m = m %}{% for x in [1] %}{% set ns.loop = loop %}{{ loop.changed(ns, loop) "
          "}}{% endfor %}"),
      "rendered True");
  std::string chain =
      "{% set ns = namespace(x=none) %}{% for i in range(4000) %}{% set ns.x = namespace(x=ns.x) "
      "%}{% endfor %}ok";
  EXPECT_EQ(outcome(chain), "rendered ok");
  expect_refused(
      "{% set ns = namespace(l=1) %}{% for i in range(999) %}{% for j in [ns.l] %}{% set ns.l = "
      "loop %}{% endfor %}{% endfor %}",
      "nested");
}

// A tool call's arguments come from the request, so they may be nested to any depth.
TEST(ChatTemplateLimits, ParsesNoJsonThatIsNestedDeeperThanTheStackIs) {
  const auto parsed = [](size_t depth) {
    const std::string lists = std::string(depth, '[') + std::string(depth, ']');
    return outcome("{{ (call | from_json).b }}",
                   {{"call", "{\"a\": " + lists + ", \"b\": \"]\\\"[\", \"c\": 1}"}});
  };
  EXPECT_EQ(parsed(100), "rendered ]\"[");
  const std::string deep = parsed(500'000);
  EXPECT_NE(deep.find("nested more than 200 deep"), std::string::npos) << deep;
}

// The limit is 4 MB: the text, what is parsed from it and the template's value take three times the
// text's size.
TEST(ChatTemplateLimits, CountsWhatJsonIsParsedInto) {
  const auto parsed = [](const std::string& json) {
    return outcome("{{ call | from_json | length }}", {{"call", json}});
  };
  EXPECT_EQ(parsed("\"" + repeat("a", 1'000'000) + "\""), "rendered 1000000");
  const std::string large = parsed("\"" + repeat("a", 1'500'000) + "\"");
  EXPECT_NE(large.find("holds more than 4194304 bytes"), std::string::npos) << large;
  EXPECT_EQ(parsed("{\"a\": [" + repeat("[], ", 1000) + "{}]}"), "rendered 1");
  const std::string many = parsed("[" + repeat("0,", 100'000) + "0]");
  EXPECT_NE(many.find("holds more than 4194304 bytes"), std::string::npos) << many;
}

// What was parsed is freed before the next text is: each iteration takes and frees 2 MB.
TEST(ChatTemplateLimits, FreesWhatJsonWasParsedInto) {
  RenderOptions options;
  options.max_memory_bytes = 4 << 20;
  auto parsed =
      ChatTemplate::parse("{% for i in range(10) %}{{ (call | from_json) | length }} {% endfor %}");
  ASSERT_TRUE(parsed.ok());
  const auto text = parsed->render({{"call", "\"" + repeat("a", 1'000'000) + "\""}}, options);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, repeat("1000000 ", 10));
}

TEST(ChatTemplateLimits, SearchesInLinearTime) {
  // A naive search of a^n for a^(n/2) b takes n^2/4 steps: minutes at this size.
  RenderOptions options;
  auto parsed = ChatTemplate::parse(
      "{% set s = 'a' * 4000000 %}{% set p = 'a' * 2000000 + 'b' %}"
      "{{ p in s }}{{ s.find(p) }}{{ s.split(p) | length }}{{ s.rsplit(p) | length }}"
      "{{ s.replace(p, 'x') | length }}{{ s.count(p) }}");
  ASSERT_TRUE(parsed.ok());
  auto text = parsed->render(ordered_json::object(), options);
  ASSERT_TRUE(text.ok()) << text.error().message;
  EXPECT_EQ(*text, "False-11140000000");
}

// The deepest evaluation that is allowed must fit a thread's stack, which is 8 MiB or less.
TEST(ChatTemplateLimits, FitsTheDeepestEvaluationIntoAThreadsStack) {
  const std::string nested = repeat("(1 if x else [", 50) + "m()" + repeat("][0])", 50);
  std::string got;
  std::thread thread([&] {
    got = outcome("{% macro m() %}{% if true %}{{ [" + nested +
                  "] | map('string') | join }}{% endif %}{% endmacro %}{{ m() }}");
  });
  thread.join();
  EXPECT_NE(got.find("nested more than"), std::string::npos) << got;
}

}  // namespace
}  // namespace kvick::text
