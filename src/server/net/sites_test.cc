#include "server/net/sites.h"

#include <gtest/gtest.h>

namespace kvick::server {
namespace {

std::string code(const Sites& sites, std::string_view host, std::string_view origin = "") {
  const auto checked = sites.check(host, origin);
  if (!checked.ok()) {
    EXPECT_EQ(checked.error().status, 403U);
  }
  return checked.ok() ? "" : checked.error().code;
}

TEST(Sites, AnswerOnlyToNamesOfThisMachineOnALoopbackAddress) {
  const Sites sites({.hosts = {"LLM.example.org", "[fd00::1]"}, .origins = {}}, "127.0.0.1", true);
  for (const char* host :
       {"localhost", "LocalHost:8080", "localhost.:1", "127.0.0.1", "127.9.9.9:80", "[::1]",
        "[::1]:8080", "llm.example.ORG", "llm.example.org:443", "[fd00::1]:80", ""})
    EXPECT_EQ(code(sites, host), "") << host;
  for (const char* host : {"evil.org", "evil.org:8080", "localhost.evil.org", "127.0.0.1.evil.org",
                           "192.168.0.1", "[::2]", ":80", "llm.example.org.evil.org"})
    EXPECT_EQ(code(sites, host), "host_not_allowed") << host;
  EXPECT_EQ(code(Sites({}, "kvick.lan", true), "kvick.lan:80"), "");
}

TEST(Sites, AnswerToAnyNameElsewhereUnlessSomeAreGiven) {
  EXPECT_EQ(code(Sites({}, "0.0.0.0", false), "whatever.org"), "");
  const Sites sites({.hosts = {"llm.org"}, .origins = {}}, "0.0.0.0", false);
  EXPECT_EQ(code(sites, "llm.org:80"), "");
  EXPECT_EQ(code(sites, "localhost"), "");
  EXPECT_EQ(code(sites, "whatever.org"), "host_not_allowed");
}

TEST(Sites, LetTheirOwnPageAskAndNoOther) {
  for (const bool loopback : {true, false}) {
    const Sites sites({}, "127.0.0.1", loopback);
    EXPECT_EQ(code(sites, "localhost:8080", "http://localhost:8080"), "");
    EXPECT_EQ(code(sites, "localhost", "http://localhost"), "");
    EXPECT_EQ(code(sites, "localhost:80", "http://LOCALHOST"), "");
    EXPECT_EQ(code(sites, "localhost:443", "https://localhost"), "");
    for (const char* origin : {"http://evil.org", "http://localhost:3000", "http://localhost",
                               "null", "evil://localhost:8080", "http://localhost:8080.evil.org",
                               "http://evil.org/localhost:8080", "localhost:8080"})
      EXPECT_EQ(code(sites, "localhost:8080", origin), "origin_not_allowed") << origin;
    EXPECT_EQ(code(sites, "", "http://"), "origin_not_allowed");
    EXPECT_EQ(sites.answer_lines("http://localhost:8080"), "");
  }
}

TEST(Sites, LetPagesOfAllowedOriginsAskAndReadTheAnswer) {
  const Sites some({.hosts = {}, .origins = {"https://Chat.org", "http://localhost:3000"}}, "",
                   true);
  EXPECT_EQ(code(some, "localhost", "https://chat.org"), "");
  EXPECT_EQ(code(some, "localhost", "http://localhost:3000"), "");
  EXPECT_EQ(code(some, "localhost", "http://chat.org"), "origin_not_allowed");
  EXPECT_EQ(some.answer_lines("https://chat.org"),
            "Access-Control-Allow-Origin: https://chat.org\r\nVary: Origin\r\n"
            "Access-Control-Expose-Headers: *\r\n");
  EXPECT_EQ(some.answer_lines("http://chat.org"), "");
  const Sites all({.hosts = {}, .origins = {"*"}}, "", true);
  EXPECT_EQ(code(all, "localhost", "http://evil.org"), "");
  EXPECT_EQ(all.answer_lines("http://evil.org"),
            "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: *\r\n");
  EXPECT_EQ(code(all, "evil.org", "http://evil.org"), "host_not_allowed");
}

TEST(Sites, SayWhichOptionHelps) {
  const Sites sites({}, "", true);
  EXPECT_NE(sites.check("evil.org", "").error().message.find("\"evil.org\""), std::string::npos);
  EXPECT_NE(sites.check("evil.org", "").error().message.find("--allow-host"), std::string::npos);
  EXPECT_NE(sites.check("localhost", "null").error().message.find("--allow-origin"),
            std::string::npos);
}

TEST(Sites, AreGivenAsNamesAndOrigins) {
  for (const char* host : {"a.org", "[::1]", "10.0.0.1"})
    EXPECT_TRUE(check({.hosts = {host}, .origins = {}}).ok()) << host;
  for (const char* host : {"", "a.org:80", "http://a.org", "*", "a.org/"})
    EXPECT_FALSE(check({.hosts = {host}, .origins = {}}).ok()) << host;
  for (const char* origin : {"*", "null", "http://a.org", "https://a.org:8443", "app://x"})
    EXPECT_TRUE(check({.hosts = {}, .origins = {origin}}).ok()) << origin;
  for (const char* origin : {"", "a.org", "http://", "http://a.org/", "http://*.a.org", "://a"})
    EXPECT_FALSE(check({.hosts = {}, .origins = {origin}}).ok()) << origin;
}

TEST(Preflights, RepeatWhatIsAskedForUnlessItIsNoListOfNames) {
  const auto value = [](const HttpResponse& answer, std::string_view name) -> std::string {
    for (const auto& [key, text] : answer.headers)
      if (key == name) return text;
    return "";
  };
  const HttpResponse good = preflight_answer({"POST", "authorization, x-stainless-os"});
  EXPECT_EQ(value(good, "Access-Control-Allow-Methods"), "POST");
  EXPECT_EQ(value(good, "Access-Control-Allow-Headers"), "authorization, x-stainless-os");
  const HttpResponse bad = preflight_answer({"P;", "a\r\nb: c"});
  EXPECT_EQ(value(bad, "Access-Control-Allow-Methods"), "");
  EXPECT_EQ(value(bad, "Access-Control-Allow-Headers"), "");
}

}  // namespace
}  // namespace kvick::server
