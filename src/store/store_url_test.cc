#include "store/store_url.h"

#include <gtest/gtest.h>

namespace kvick::store {
namespace {

std::string parts(std::string_view url) {
  const auto address = parse_store_url(url);
  if (!address.ok()) return address.error().message;
  return fmt::format("{}|{}|{}|{}|{}|{}", address->host, address->port, address->database,
                     address->user, address->password, address->tls);
}

TEST(StoreUrl, HasHostPortDatabaseUserAndPassword) {
  EXPECT_EQ(parts("redis://store"), "store|6379|0|||false");
  EXPECT_EQ(parts("redis://10.0.0.1:7000/3"), "10.0.0.1|7000|3|||false");
  EXPECT_EQ(parts("rediss://:secret@store:6380/"), "store|6380|0||secret|true");
  EXPECT_EQ(parts("redis://kvick:a%40b%2fc@store"), "store|6379|0|kvick|a@b/c|false");
  EXPECT_EQ(parts("redis://:a@b/c@store/2"), "store|6379|2||a@b/c|false");
  EXPECT_EQ(parts("redis://[::1]:7000/1"), "::1|7000|1|||false");
  EXPECT_EQ(parts("redis://[fe80::1]"), "fe80::1|6379|0|||false");
}

TEST(StoreUrl, IsRefusedInOneSentenceWithoutThePassword) {
  for (const char* url :
       {"", "store", "http://store", "redis:", "redis://", "redis://:secret@", "redis://:secret@:1",
        "redis://:secret@store:", "redis://:secret@store:0", "redis://:secret@store:65536",
        "redis://:secret@store:6379x", "redis://:secret@store/x", "redis://:secret@store/-1",
        "redis://secret@store", "redis://:secret%@store", "redis://:secret%g0@store",
        "redis://[::1", "redis://[::1]x", "redis://a b"}) {
    const std::string what = parts(url);
    EXPECT_NE(what.find("a store is redis://"), std::string::npos) << url << ": " << what;
    EXPECT_EQ(what.find("secret"), std::string::npos) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos);
  }
}

TEST(StoreUrl, IsSaidWithoutWhatIsSecret) {
  EXPECT_EQ(parse_store_url("rediss://kvick:secret@store:1/2")->text(), "store:1/2");
}

}  // namespace
}  // namespace kvick::store
