#include "server/request/unknown_fields.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace kvick::server {
namespace {

std::string header_of(const std::vector<std::string>& paths) {
  UnknownFields unknown(false);
  for (const std::string& path : paths) unknown.add(path);
  const Headers headers = unknown.headers();
  return headers.empty() ? "" : headers.front().first + ": " + headers.front().second;
}

TEST(UnknownFields, AreOneHeader) {
  EXPECT_EQ(header_of({}), "");
  EXPECT_EQ(header_of({"a", "kv.b"}), "X-Kvick-Ignored-Fields: a, kv.b");
}

TEST(UnknownFields, AreNamedOnceForAllElementsOfAList) {
  EXPECT_EQ(header_of({"m[0].x", "m[12].x", "m[12].y", "m[0].x"}),
            "X-Kvick-Ignored-Fields: m[0].x, m[12].y");
}

TEST(UnknownFields, CannotPutAnythingElseIntoTheHeader) {
  EXPECT_EQ(header_of({"a\r\nSet-Cookie: b", "c, d", "\xC3\xA9"}),
            "X-Kvick-Ignored-Fields: a??Set-Cookie??b, c??d, ??");
}

TEST(UnknownFields, AreBoundedInNumberAndLength) {
  std::vector<std::string> many;
  for (int i = 0; i < 1000; ++i) many.push_back(fmt::format("{}{}", i, std::string(1000, 'x')));
  const std::string header = header_of(many);
  EXPECT_TRUE(header.ends_with("xxx..., ...")) << header;
  EXPECT_LT(header.size(), UnknownFields::kMostNames * (UnknownFields::kMostNameBytes + 5) + 32);
}

TEST(UnknownFieldLog, TellsEachNameOnceAndThenThatThereAreMore) {
  UnknownFieldLog log;
  std::vector<std::string> told;
  const auto add = [&](const std::string& path) {
    UnknownFields unknown(false);
    unknown.add(path);
    log.add(unknown, [&](const std::string& what) { told.push_back(what); });
  };
  add("m[0].x");
  add("m[7].x");
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0],
            "a request has the unknown field m[].x, which is ignored (--strict-fields refuses such "
            "requests)");
  for (size_t i = 0; i < 2 * UnknownFieldLog::kMostNames; ++i) add(fmt::format("f{}", i));
  ASSERT_EQ(told.size(), UnknownFieldLog::kMostNames + 1);
  EXPECT_EQ(told.back(), "further unknown fields of requests are ignored and not logged");
}

}  // namespace
}  // namespace kvick::server
