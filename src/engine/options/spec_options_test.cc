#include "engine/options/spec_options.h"

#include <gtest/gtest.h>

namespace kvick::engine {
namespace {

std::string error_of(std::string_view text) {
  const auto options = parse_spec_options(text);
  return options.ok() ? "" : options.error().message;
}

TEST(SpecOptions, ReadsEveryWay) {
  EXPECT_FALSE(parse_spec_options("")->on());
  EXPECT_FALSE(parse_spec_options("none")->on());
  EXPECT_TRUE(parse_spec_options("auto")->gain);
  EXPECT_EQ(parse_spec_options("auto")->model, "");
  EXPECT_EQ(parse_spec_options("auto:model=a.gguf")->model, "a.gguf");
  EXPECT_TRUE(parse_spec_options("lookup")->gain);
  EXPECT_FALSE(parse_spec_options("lookup:gain=off")->gain);
  EXPECT_EQ(parse_spec_options("lookup")->most, 8u);
  const SpecOptions suffix = parse_spec_options("suffix:most=3,grow=on").value();
  EXPECT_EQ(suffix.most, 3u);
  EXPECT_EQ(suffix.depth, 3u);
  EXPECT_TRUE(suffix.grow);
  const SpecOptions draft = parse_spec_options("draft:model=a.gguf,depth=5").value();
  EXPECT_EQ(draft.model, "a.gguf");
  EXPECT_EQ(draft.depth, 5u);
  EXPECT_EQ(draft.words, 0u);
  EXPECT_EQ(parse_spec_options("auto:model=a.gguf,words=4096")->words, 4096u);
  const SpecOptions own = parse_spec_options("mtp").value();
  EXPECT_TRUE(own.by_own_layer() && own.by_model() && own.gain);
  EXPECT_EQ(own.depth, 3u);
  EXPECT_FALSE(draft.by_own_layer());
  const SpecOptions skip = parse_spec_options("skip:layers=1-2+4").value();
  EXPECT_EQ(skip.skip, (std::vector<bool>{false, true, true, false, true}));
}

TEST(SpecOptions, SaysWhatIsWrong) {
  EXPECT_NE(error_of("lokup").find("there are none, auto, lookup"), std::string::npos);
  EXPECT_NE(error_of("lookup:n=3").find("has no option"), std::string::npos);
  EXPECT_NE(error_of("none:most=3").find("it has none"), std::string::npos);
  for (const char* most : {"0", "65", "x", "", "-1"})
    EXPECT_NE(error_of(std::string("lookup:most=") + most), "") << most;
  EXPECT_NE(error_of("draft").find("draft needs model="), std::string::npos);
  EXPECT_NE(error_of("lookup:grow=yes").find("on or off"), std::string::npos);
  EXPECT_NE(error_of("auto:gain=off").find("has no option"), std::string::npos);
  for (const char* words : {"15", "x", "-1"})
    EXPECT_NE(error_of(std::string("draft:model=a.gguf,words=") + words).find("at least 16"),
              std::string::npos);
  for (const char* layers : {"", "3-1", "a", "1-", "1+", "99999", "1,2"})
    EXPECT_NE(error_of(std::string("skip:layers=") + layers), "") << layers;
}

}  // namespace
}  // namespace kvick::engine
