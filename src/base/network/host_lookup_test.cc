#include "base/network/host_lookup.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

#include "base/testing/hung_resolver.h"

namespace kvick::base {
namespace {

TEST(HostLookup, LooksANameUpOnceThoughItTakesLong) {
  HungResolver resolver;
  HostLookup lookup("collector", resolver.resolve());
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(lookup.run(std::chrono::milliseconds(1)).ok());
  resolver.open();
  const auto found = lookup.run(std::chrono::hours(1));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, Addresses{"127.0.0.1"});
  EXPECT_EQ(resolver.calls(), 1);
  EXPECT_TRUE(lookup.run(std::chrono::hours(1)).ok());
  EXPECT_EQ(resolver.calls(), 2) << "addresses may change";
}

TEST(HostLookup, EndsSoonAfterTheStopFlagIsSet) {
  HungResolver resolver;
  HostLookup lookup("store", resolver.resolve());
  std::atomic<bool> stop = false;
  std::thread stopper([&] {
    while (resolver.calls() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    stop = true;
  });
  const auto stopped = lookup.run(std::chrono::hours(1), &stop);
  stopper.join();
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().message, "the program is ending");
  resolver.open();
  stop = false;
  EXPECT_TRUE(lookup.run(std::chrono::hours(1), &stop).ok());
}

TEST(HostLookup, TakesAddressesThatAreNumbersAndSaysWhichNamesAreNone) {
  EXPECT_EQ(*resolve_by_system("127.0.0.1"), Addresses{"127.0.0.1"});
  EXPECT_EQ(*resolve_by_system("::1"), Addresses{"::1"});
  const auto none = resolve_by_system(std::string(300, 'x'));
  ASSERT_FALSE(none.ok());
  EXPECT_TRUE(none.error().message.starts_with("its name is not found: ")) << none.error().message;
}

}  // namespace
}  // namespace kvick::base
