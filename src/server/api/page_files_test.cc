#include "server/api/page_files.h"

#include <gtest/gtest.h>
#include <regex>
#include <set>
#include <string>

#include "server/testing/api.h"

namespace kvick::server {
namespace {

// Returns the files of the page that a file refers to: "page/x.css" in HTML, "./x.js" in scripts.
std::set<std::string> named_in(const std::string& text) {
  static const std::regex kName(R"re("(?:page|\.)/([a-z_]+\.(?:js|css))")re");
  std::set<std::string> names;
  for (std::sregex_iterator at(text.begin(), text.end(), kName), end; at != end; ++at)
    names.insert("/page/" + (*at)[1].str());
  return names;
}

TEST(PageFiles, HaveEveryFileThatTheyName) {
  std::set<std::string> seen, open = {"/", "/operator"};
  while (!open.empty()) {
    const std::string path = *open.begin();
    open.erase(open.begin());
    if (!seen.insert(path).second) continue;
    const auto file = page_file(path);
    ASSERT_TRUE(file) << path;
    EXPECT_FALSE(file->body.empty()) << path;
    open.merge(named_in(file->body));
  }
  EXPECT_GT(seen.size(), 10U);
}

TEST(PageFiles, AreNothingElse) {
  for (const char* path : {"/page/", "/page/none.js", "/page/../api/openapi.json", "/page.css", ""})
    EXPECT_FALSE(page_file(path)) << path;
}

TEST_F(ApiTest, GivesThePagesAndTheirFilesWithAPolicy) {
  const std::pair<const char*, const char*> files[] = {
      {"/", "text/html; charset=utf-8"},
      {"/operator?x=1", "text/html; charset=utf-8"},
      {"/page/base.css", "text/css; charset=utf-8"},
      {"/page/main.js", "text/javascript; charset=utf-8"}};
  for (const auto& [path, type] : files) {
    const HttpResponse response = get(path).response;
    EXPECT_EQ(response.status, 200U) << path;
    EXPECT_EQ(response.type, type);
    ASSERT_FALSE(response.headers.empty());
    EXPECT_EQ(response.headers[0].first, "Content-Security-Policy");
    EXPECT_EQ(response.headers[0].second.find("unsafe"), std::string::npos);
  }
  EXPECT_EQ(get("/page/none.js").response.status, 404U);
}

}  // namespace
}  // namespace kvick::server
