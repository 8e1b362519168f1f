#include "cli/transfer/subprocess.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/transfer/failure.h"

namespace kvick::cli {
namespace {

constexpr size_t kKeptOutput = 16 << 10;
constexpr int kTickMilliseconds = 200;

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));
  out.push_back(nullptr);
  return out;
}

std::vector<std::string> environment_with(const std::vector<std::string>& variables) {
  std::vector<std::string> out = variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "=") + 1);
    bool replaced = false;
    for (const std::string& variable : variables) replaced |= variable.starts_with(name);
    if (!replaced) out.emplace_back(*entry);
  }
  return out;
}

// Calls posix_spawnp with stdin from /dev/null and with stdout and stderr to `out`. Returns an
// errno value.
int spawn(const std::vector<std::string>& arguments, const std::vector<std::string>& variables,
          int out, pid_t& child) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out, STDERR_FILENO);
  const auto environment = environment_with(variables);
  const int error = posix_spawnp(&child, arguments[0].c_str(), &actions, nullptr,
                                 pointers(arguments).data(), pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads until all processes have closed the other end.
void collect(int from, std::string& kept, base::FunctionRef<void()> tick) {
  std::array<char, 4096> buffer;
  for (pollfd ready{from, POLLIN, 0};;) {
    const int events = ::poll(&ready, 1, kTickMilliseconds);
    tick();
    if (events <= 0) continue;  // no data yet, or a signal
    const ssize_t n = ::read(from, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    kept.append(buffer.data(), static_cast<size_t>(n));
    if (kept.size() > 2 * kKeptOutput) kept.erase(0, kept.size() - kKeptOutput);
  }
}

}  // namespace

Ended run_program(const std::vector<std::string>& arguments,
                  const std::vector<std::string>& variables, base::FunctionRef<void()> tick) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0)
    throw failure("cannot make a pipe: {}", std::strerror(errno));
  pid_t child = 0;
  const int error = spawn(arguments, variables, pipe[1], child);
  ::close(pipe[1]);
  Ended out;
  if (error == 0) collect(pipe[0], out.output_end, tick);
  ::close(pipe[0]);
  if (error == ENOENT) return {.found = false, .status = 127};
  if (error != 0) throw failure("cannot run {}: {}", arguments[0], std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw failure("lost track of {}: {}", arguments[0], std::strerror(errno));
  out.status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return out;
}

std::string reason_line(const std::string& output) {
  std::istringstream lines(output);
  std::string last, error;
  for (std::string line; std::getline(lines, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (line.empty()) continue;
    last = line;
    if (line.starts_with("ERROR")) error = line;
  }
  return error.empty() ? last : error;
}

}  // namespace kvick::cli
