#include "engine/speed.h"

#include <gtest/gtest.h>

#include "engine/test_engine.h"

namespace kvick::engine {
namespace {

double g_now = 0;
// A clock that goes on by one second each time it is read.
double ticking() { return g_now += 1; }

TEST(Speed, DividesTokensByTheClock) {
  const auto engine = tiny_engine();
  SpeedOptions options;
  options.prompt = 40;
  options.decode = 10;
  options.depth = 5;
  options.parallel = 3;
  options.repeats = 2;
  options.clock = ticking;
  const auto speed = measure_speed(*engine, options);
  ASSERT_TRUE(speed.ok());
  EXPECT_EQ(speed->prefill_tok_s, std::vector<double>(2, 40));
  EXPECT_EQ(speed->decode_tok_s, std::vector<double>(2, 30));
  const kv::Shape shape = engine->model().kv_shape(kernels::DType::kF16, kernels::DType::kF16);
  EXPECT_EQ(speed->usage.used_bytes, 3 * 15 * shape.token_bytes());
  EXPECT_EQ(speed->usage.wasted_bytes, speed->usage.allocated_bytes - speed->usage.used_bytes);
}

TEST(Speed, RefusesWhatDoesNotFit) {
  const auto engine = tiny_engine(128);
  SpeedOptions options;
  options.prompt = 100;
  options.depth = 29;
  EXPECT_NE(measure_speed(*engine, options).error().message.find("context of 128"),
            std::string::npos);
  options.prompt = options.decode = 0;
  EXPECT_NE(measure_speed(*engine, options).error().message.find("nothing to measure"),
            std::string::npos);
}

TEST(Speed, MedianAndSpreadAreThoseOfTheList) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median({}), 0);
  EXPECT_EQ(spread({2, 1, 3}), 1);
}

}  // namespace
}  // namespace kvick::engine
