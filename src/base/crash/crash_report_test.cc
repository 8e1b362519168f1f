#include "base/crash/crash_report.h"

#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <regex>
#include <string>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace kvick::base {
namespace {

#ifndef KVICK_SANITIZED

// Runs `crash` in a child process that has installed the report. Returns what the child wrote to
// stderr and its exit status. wait: called before anything is read.
template <typename Crash>
std::pair<std::string, int> said_by(
    const Crash& crash, const std::function<void()>& wait = [] {}) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    CrashNotes notes;
    install_crash_report("1.2.3 (commit abc)");
    set_crash_notes(&notes);
    crash(notes);
    _exit(0);
  }
  close(ends[1]);
  wait();
  std::string said;
  std::array<char, 4096> bytes;
  for (ssize_t n; (n = read(ends[0], bytes.data(), bytes.size())) > 0;)
    said.append(bytes.data(), static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  return {said, status};
}

std::string output_of(const std::string& command) {
  std::string output;
  FILE* const pipe = popen(command.c_str(), "r");
  std::array<char, 4096> bytes;
  for (size_t n; (n = fread(bytes.data(), 1, bytes.size(), pipe)) > 0;)
    output.append(bytes.data(), n);
  pclose(pipe);
  return output;
}

// Not inlined, so that the stack shows its name.
[[gnu::noinline]] void write_nowhere(volatile int* where) { *where = 1; }

TEST(CrashReport, SaysVersionSignalAddressStackAndTheRequestsOfTheStep) {
  const auto [said, status] = said_by([](CrashNotes& notes) {
    CrashNotes::Engine engine(&notes);
    CrashNotes::Step step(engine);
    for (const char* request : {"first-request", "second-request"}) step.add(request);
    write_nowhere(reinterpret_cast<volatile int*>(0x10));
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << said;
  EXPECT_TRUE(said.starts_with("kvick crashed: version 1.2.3 (commit abc), build ")) << said;
  EXPECT_TRUE(std::regex_search(said, std::regex("build [0-9a-f]{16,}\n"))) << said;
  EXPECT_NE(said.find("signal SIGSEGV at address 0x10\n"), std::string::npos) << said;
  EXPECT_NE(said.find("requests of the step that ran: first-request second-request\n"),
            std::string::npos)
      << said;
  // The report is not the last output under an emulator, which adds its own message.
  EXPECT_NE(said.find("\nend of the crash report\n"), std::string::npos) << said;
}

TEST(CrashReport, HasOffsetsThatLeadToTheFunctionThatCrashed) {
  const auto [said, status] =
      said_by([](CrashNotes&) { write_nowhere(reinterpret_cast<volatile int*>(0x10)); });
  std::string names;
  const std::regex frame("  (/\\S+)\\+(0x[0-9a-f]+)\n");
  for (std::sregex_iterator at(said.begin(), said.end(), frame), end; at != end; ++at)
    names += output_of("addr2line -Cfe " + (*at)[1].str() + " " + (*at)[2].str() + " 2>&1");
  if (names.find("not found") != std::string::npos) GTEST_SKIP() << "there is no addr2line here";
  EXPECT_NE(names.find("write_nowhere"), std::string::npos) << said << names;
}

int g_interruptions[2];  // a pipe: a byte for each signal that the crashing process handled

// Writes to stderr, a pipe, until it is full, and lets a timer interrupt what writes next.
void fill_stderr() {
  const int flags = fcntl(STDERR_FILENO, F_GETFL);
  fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
  const std::string filler(4096, '.');
  while (write(STDERR_FILENO, filler.data(), filler.size()) > 0) {
  }
  while (write(STDERR_FILENO, ".", 1) > 0) {
  }
  fcntl(STDERR_FILENO, F_SETFL, flags);
  struct sigaction action = {};  // without SA_RESTART
  action.sa_handler = [](int) { (void)!write(g_interruptions[1], "x", 1); };
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often = {.it_interval = {0, 1000}, .it_value = {0, 1000}};
  setitimer(ITIMER_REAL, &often, nullptr);
}

TEST(CrashReport, IsWholeWhereSignalsInterruptItsWriting) {
  ASSERT_EQ(pipe(g_interruptions), 0);
  const auto wait = [] {
    close(g_interruptions[1]);
    char byte;
    for (int i = 0; i < 50 && read(g_interruptions[0], &byte, 1) == 1; ++i) {
    }
  };
  const auto [said, status] = said_by(
      [](CrashNotes&) {
        fill_stderr();
        write_nowhere(reinterpret_cast<volatile int*>(0x10));
      },
      wait);
  close(g_interruptions[0]);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT_NE(said.find("kvick crashed: version 1.2.3"), std::string::npos);
  EXPECT_NE(said.find("\nend of the crash report\n"), std::string::npos);
}

TEST(CrashReport, SaysWhyAProcessIsAbortedThatHasNoStep) {
  for (const bool terminate : {false, true}) {
    const auto [said, status] = said_by([&](CrashNotes& notes) {
      CrashNotes::Engine engine(&notes);
      { CrashNotes::Step(engine).add("over"); }
      terminate ? std::terminate() : std::abort();
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    EXPECT_NE(said.find("signal SIGABRT\n"), std::string::npos) << said;
    EXPECT_EQ(said.find("requests"), std::string::npos) << said;
  }
}

#endif

TEST(CrashNotes, GiveEachEngineALaneAndTakeItBack) {
  CrashNotes notes;
  for (size_t i = 0; i < 2 * CrashNotes::kLanes; ++i) CrashNotes::Engine one(&notes);
  std::vector<CrashNotes::Engine> all;
  for (size_t i = 0; i <= CrashNotes::kLanes; ++i) all.emplace_back(&notes);
  for (CrashNotes::Engine& one : all) {
    CrashNotes::Step step(one);
    step.add("a");
  }
  EXPECT_TRUE(notes.lanes.back().taken);
  EXPECT_STREQ(notes.lanes.back().requests[0], "a");
  EXPECT_EQ(notes.lanes.back().count, 0U);
  CrashNotes::Engine none;
  CrashNotes::Step(none).add("nobody hears it");
}

}  // namespace
}  // namespace kvick::base
