// How a calibration's moment, and faster runs, are used.

#include <cstdlib>
#include <ctime>
#include <gtest/gtest.h>

#include "plan/machine/calibration.h"

namespace kvick::plan {
namespace {

Calibration some() {
  return {.machine = {},
          .moment = {.at = 100, .others = 0.0},
          .read = {{100, 9}, {200, 5}, {400, 2}},
          .int8_ops_s = 10,
          .f32_ops_s = 4,
          .tile_ops_s = 0};
}

TEST(Calibration, RaisesTheReadSpeedOfAWorkingSetAndOfSmallerOnes) {
  Calibration c = some();
  EXPECT_FALSE(raise_read(c, 250, 5));
  EXPECT_TRUE(raise_read(c, 250, 6));
  EXPECT_EQ(c.read, (std::vector<ReadSpeed>{{100, 9}, {200, 6}, {400, 2}}));
  EXPECT_TRUE(raise_read(c, 1000, 7));
  EXPECT_EQ(c.read, (std::vector<ReadSpeed>{{100, 9}, {200, 7}, {400, 7}}));
  EXPECT_TRUE(raise_read(c, 1, 11)) << "smaller than the smallest size";
  EXPECT_EQ(c.read, (std::vector<ReadSpeed>{{100, 11}, {200, 7}, {400, 7}}));
}

TEST(Calibration, MeasuredAgainKeepsWhatWasFaster) {
  Calibration kept = some(), fresh = some();
  kept.moment = {.at = 1, .others = 0.5};
  kept.read = {{100, 1}, {200, 8}};
  kept.int8_ops_s = 12;
  kept.f32_ops_s = 3;
  const Calibration both = highest_of(fresh, kept);
  EXPECT_EQ(both.read, (std::vector<ReadSpeed>{{100, 9}, {200, 8}, {400, 2}}));
  EXPECT_EQ(both.int8_ops_s, 12);
  EXPECT_EQ(both.f32_ops_s, 4);
  EXPECT_EQ(both.moment, fresh.moment);
}

TEST(Calibration, IsMeasuredAgainOnceOthersHaveEnded) {
  Calibration kept = some();
  EXPECT_FALSE(taken_at_a_worse_moment(kept, 0.0)) << "it was idle";
  kept.moment.others = 0.4;
  EXPECT_TRUE(taken_at_a_worse_moment(kept, 0.0));
  EXPECT_TRUE(taken_at_a_worse_moment(kept, 0.19));
  EXPECT_FALSE(taken_at_a_worse_moment(kept, 0.2)) << "little would be won";
  EXPECT_FALSE(taken_at_a_worse_moment(kept, std::nullopt)) << "nothing is known of now";
  kept.moment.others.reset();
  EXPECT_FALSE(taken_at_a_worse_moment(kept, 0.0)) << "nothing is known of then";
}

// Sets the time zone, so that the text has a known hour.
class MomentText : public testing::Test {
 protected:
  MomentText() {
    if (const char* zone = std::getenv("TZ")) before_ = zone;
    setenv("TZ", "UTC", 1);
    tzset();
  }
  ~MomentText() override {
    before_.empty() ? unsetenv("TZ") : setenv("TZ", before_.c_str(), 1);
    tzset();
  }
  static constexpr int64_t kAt = 1795506730;  // 2026-11-24 07:52:10
  std::string before_;
};

TEST_F(MomentText, SaysWhenAndHowSure) {
  EXPECT_EQ(moment_text({.at = kAt}), "measured 2026-11-24 07:52");
  EXPECT_EQ(moment_text({.at = kAt, .others = 0.01}),
            "measured 2026-11-24 07:52 on an idle machine");
  EXPECT_EQ(moment_text({.at = kAt, .others = 0.07}),
            "measured 2026-11-24 07:52 while other programs used 7 % of the cores");
  EXPECT_EQ(moment_text({.at = kAt, .others = 0.4}),
            "measured 2026-11-24 07:52 while other programs used 40 % of the cores: run `kvick "
            "bench --calibrate` when the machine is idle");
  EXPECT_EQ(moment_text({.at = kAt, .others = 0.0, .spread = 0.3, .raised_at = kAt + 3600}),
            "measured 2026-11-24 07:52 on an idle machine, rounds up to 30 % apart, raised "
            "2026-11-24 08:52 by a faster run");
}

}  // namespace
}  // namespace kvick::plan
