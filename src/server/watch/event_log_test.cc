#include "server/watch/event_log.h"

#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <thread>
#include <unistd.h>

#include "server/testing/log_file.h"

namespace kvick::server {
namespace {

TEST(EventLog, WritesAJsonObjectALineWhateverBytesNamesHave) {
  LogFile file;
  std::string bytes;
  for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
  file.log->write({.level = LogLevel::kWarning,
                   .name = "request",
                   .message = bytes,
                   .fields = {{"model", "\xff\"\n"}, {bytes, 5}}});
  file.log->write({.message = "two"});
  const std::vector<Json> lines = file.lines();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["level"], "warning");
  EXPECT_EQ(lines[0]["event"], "request");
  EXPECT_EQ(lines[0]["model"], "\xEF\xBF\xBD\"\n");
  EXPECT_EQ(lines[1]["level"], "notice");
  EXPECT_EQ(lines[1]["message"], "two");
  const std::string time = lines[1]["time"];
  EXPECT_EQ(time.size(), 24U) << time;
  EXPECT_TRUE(time.ends_with("Z")) << time;
}

TEST(EventLog, WritesTextOnOneLineWithQuotesWhereTheyAreNeeded) {
  LogFile file(LogFormat::kText);
  file.log->write(
      {.message = "a\nline", .fields = {{"id", "x1"}, {"model", "m \"\n\xff"}, {"n", 3}}});
  EXPECT_EQ(file.text(), "kvick: a line id=x1 model=\"m \\\"\\n\\ufffd\" n=3\n");
}

TEST(EventLog, LeavesOutWhatIsBelowItsLevel) {
  LogFile file(LogFormat::kText, LogLevel::kNotice);
  EXPECT_FALSE(file.log->takes(LogLevel::kInfo));
  for (const LogLevel level :
       {LogLevel::kError, LogLevel::kNotice, LogLevel::kInfo, LogLevel::kDebug})
    file.log->write({.level = level, .message = std::string(log_level_name(level))});
  EXPECT_EQ(file.text(), "kvick: error\nkvick: notice\n");
}

// A pipe that nobody reads takes 64 KiB: if a line waited for a reader, this test would hang.
TEST(EventLog, WaitsForNoReaderAndSaysWhatItDropped) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  std::string read_text;
  auto log = std::make_unique<EventLog>(LogOptions{.file = ends[1], .most_lines = 8});
  while (log->dropped() == 0) log->write({.message = std::string(1000, 'x')});
  std::thread reader([&] {
    char bytes[4096];
    for (ssize_t n; (n = ::read(ends[0], bytes, sizeof(bytes))) > 0;)
      read_text.append(bytes, static_cast<size_t>(n));
  });
  log.reset();
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_NE(read_text.find(" lines of this log were dropped"), std::string::npos);
}

TEST(EventLog, EndsThoughNobodyReads) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  {
    EventLog log({.file = ends[1], .most_lines = 64, .end_time = std::chrono::milliseconds(1)});
    for (int i = 0; i < 1000; ++i) log.write({.message = std::string(1000, 'x')});
  }
  ::close(ends[0]), ::close(ends[1]);
}

void ignore_signal(int) {}

// The pipe fills, because nobody reads it. A log that wrote to it without first waiting for room
// with a time limit would never end, and neither would this test.
TEST(EventLog, EndsThoughASignalInterruptsItAndNobodyReads) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  struct sigaction action = {}, before;
  action.sa_handler = ignore_signal;
  ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
  sigset_t usr1, mask;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  {
    EventLog log({.file = ends[1], .most_lines = 64, .end_time = std::chrono::milliseconds(1)});
    // The log's thread is now the only one that takes the signal.
    ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &usr1, &mask), 0);
    while (log.dropped() == 0) log.write({.message = std::string(1000, 'x')});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(kill(getpid(), SIGUSR1), 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  sigaction(SIGUSR1, &before, nullptr);
  ::close(ends[0]), ::close(ends[1]);
}

}  // namespace
}  // namespace kvick::server
