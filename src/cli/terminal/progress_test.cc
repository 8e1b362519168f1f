#include "cli/terminal/progress.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <sstream>

#include "cli/terminal/terminal.h"

namespace kvick::cli {
namespace {

size_t columns(const std::string& text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

ProgressLine half_way() {
  return {
      .what = "model.gguf", .done = 50'000'000, .total = 100'000'000, .rate = 10e6, .elapsed_s = 5};
}

TEST(Printable, LeavesNothingThatATerminalActsOn) {
  EXPECT_EQ(printable("a\x1b[2Jb\x07\rc\x7f"), "a?[2Jb??c?");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J \x9b"
                      "2J"),
            "?2J ?2J")
      << "ESC [ as one character";
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a?b");
  EXPECT_EQ(printable("\xe2\x96\x9b \xf0\x9f\x98\x80 \xc3\xa9"),
            "\xe2\x96\x9b \xf0\x9f\x98\x80 \xc3\xa9");
  EXPECT_EQ(printable("line\n\ttab"), "line\n\ttab");
  EXPECT_EQ(printable("caf\xe9 \xe2\x1b[m"), "caf\xe9 \xe2?[m") << "no UTF-8";
}

TEST(AmountText, HasThreeDigitsOrMoreInPowersOfTen) {
  EXPECT_EQ(amount_text(0, Unit::kBytes), "0 B");
  EXPECT_EQ(amount_text(999, Unit::kBytes), "999 B");
  EXPECT_EQ(amount_text(1000, Unit::kBytes), "1.0 kB");
  EXPECT_EQ(amount_text(999'960, Unit::kBytes), "1.0 MB");
  EXPECT_EQ(amount_text(98'362'432, Unit::kBytes), "98.4 MB");
  EXPECT_EQ(amount_text(1.8e19, Unit::kBytes), "18000000.0 TB");
  EXPECT_EQ(amount_text(12.345, Unit::kTokens), "12.3 tokens");
  EXPECT_EQ(amount_text(999, Unit::kTokens), "999 tokens");
  EXPECT_EQ(amount_text(1'234'567, Unit::kTokens), "1,234,567 tokens");
}

TEST(DurationText, RoundsUpAndIsBounded) {
  EXPECT_EQ(duration_text(0), "0:00");
  EXPECT_EQ(duration_text(6.1), "0:07");
  EXPECT_EQ(duration_text(754), "12:34");
  EXPECT_EQ(duration_text(3723), "1:02:03");
  EXPECT_EQ(duration_text(1e30), "99:00:00");
  EXPECT_EQ(duration_text(-5), "0:00");
}

TEST(BarLine, ShowsShareAmountRateAndTimeLeft) {
  EXPECT_EQ(
      bar_line(half_way(), 90, false),
      "model.gguf  [###############----------------]   50 %  50.0 of 100.0 MB  10.0 MB/s 0:05");
}

TEST(BarLine, DrawsEighthsOfACellWithUtf8) {
  ProgressLine line = half_way();
  line.done = 51'000'000;
  EXPECT_EQ(
      bar_line(line, 90, true),
      "model.gguf  │███████████████▊               │   51 %  51.0 of 100.0 MB  10.0 MB/s 0:05");
}

TEST(BarLine, IsNeverAsWideAsTheTerminal) {
  const std::string long_name(70, 'n');
  for (std::string_view what : {"m", "model.gguf", long_name.c_str(), "モデル.gguf"})
    for (Unit unit : {Unit::kBytes, Unit::kTokens})
      for (uint64_t total : {uint64_t{0}, uint64_t{7}, ~uint64_t{0}})
        for (int width = 0; width < 200; ++width)
          for (bool utf8 : {false, true}) {
            const ProgressLine line{what, unit, total / 2, total, 1e9, 1e6};
            EXPECT_LE(columns(bar_line(line, width, utf8)),
                      static_cast<size_t>(std::max(width - 1, 0)))
                << width;
          }
}

TEST(BarLine, WithoutATotalShowsWhatPassed) {
  EXPECT_EQ(
      bar_line({.what = "x", .done = 3000, .total = 0, .rate = 1000, .elapsed_s = 3}, 80, false),
      "x  3.0 kB  1.0 kB/s 0:03");
}

TEST(BarLine, MakesControlCharactersVisible) {
  EXPECT_EQ(bar_line({.what = "a\x1b[2Jb\n"}, 80, false).substr(0, 8), "a?[2Jb? ");
}

struct Watched {
  double now = 100;
  std::ostringstream out;
  Progress progress;
  explicit Watched(ProgressMode mode)
      : progress(out, {.mode = mode, .width = [] { return 80; }}, [this] { return now; }) {}
};

TEST(Progress, OnATerminalRedrawsOneLineAtMostTenTimesASecond) {
  Watched w(ProgressMode::kBar);
  w.progress.start("m", Unit::kBytes, 1000);
  for (int i = 1; i <= 1000; ++i) {
    w.now += 0.001;
    w.progress.update(i);
  }
  w.progress.finish();
  const std::string text = w.out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 0);
  EXPECT_LE(std::count(text.begin(), text.end(), '\r'), 12);
  EXPECT_GE(std::count(text.begin(), text.end(), '\r'), 9);
  EXPECT_TRUE(text.ends_with("\r\x1b[K")) << "finish() leaves the line empty";
}

TEST(Progress, AReportStartsWorkThatHasNotStarted) {
  Watched w(ProgressMode::kBar);
  w.progress.finish();
  EXPECT_EQ(w.out.str(), "") << "refused before it began";
  w.progress.report("first", Unit::kBytes, 10, 1000);
  w.now += 1;
  w.progress.report("is not looked at", Unit::kBytes, 500, 1000);
  w.progress.finish();
  w.progress.report("second", Unit::kBytes, 5, 10);
  const std::string text = w.out.str();
  EXPECT_NE(text.find("first"), std::string::npos);
  EXPECT_NE(text.find("500 B"), std::string::npos) << text;
  EXPECT_EQ(text.find("is not looked at"), std::string::npos);
  EXPECT_NE(text.find("second"), std::string::npos);
}

TEST(Progress, TheRateLeavesOutWhatWasThereBefore) {
  Watched w(ProgressMode::kBar);
  w.progress.start("m", Unit::kBytes, 20'000, 10'000);
  for (int i = 1; i <= 20; ++i) {
    w.now += 0.25;
    w.progress.update(10'000 + 250 * i);
  }
  EXPECT_NE(w.out.str().find(" 1.0 kB/s 0:05"), std::string::npos) << w.out.str();
}

TEST(Progress, ElsewhereWritesALineATenthAndNotOftenerThanEveryFiveSeconds) {
  Watched slow(ProgressMode::kLines);
  slow.progress.start("m", Unit::kBytes, 1000);
  for (int i = 1; i <= 1000; ++i) {
    slow.now += 1;
    slow.progress.update(i);
  }
  const std::string text = slow.out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 10);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);

  Watched quick(ProgressMode::kLines);
  quick.progress.start("m", Unit::kBytes, 1000);
  for (int i = 1; i <= 1000; ++i) {
    quick.now += 0.004;
    quick.progress.update(i);
  }
  EXPECT_EQ(quick.out.str(), "");
}

TEST(Progress, QuietWritesNothingAtAll) {
  Watched w(ProgressMode::kSilent);
  w.progress.start("m", Unit::kBytes, 1000);
  w.now += 100;
  w.progress.update(500);
  w.progress.note("a note");
  w.progress.finish();
  EXPECT_EQ(w.out.str(), "");
}

TEST(Progress, ANoteStandsAboveTheBar) {
  Watched w(ProgressMode::kBar);
  w.progress.start("m", Unit::kBytes, 1000);
  w.progress.note("a note");
  EXPECT_NE(w.out.str().find("\r\x1b[Ka note\n\rm"), std::string::npos) << w.out.str();
}

}  // namespace
}  // namespace kvick::cli
