#include "cli/terminal/interrupt.h"

#include <csignal>
#include <cstdlib>

namespace kvick::cli {
namespace {

// Global, because a signal handler has no other way to report.
volatile std::sig_atomic_t g_interrupted = 0;

void note(int) {
  if (g_interrupted != 0) std::_Exit(130);
  g_interrupted = 1;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_interrupted = 0;
  std::signal(SIGINT, note);
}

InterruptGuard::~InterruptGuard() { std::signal(SIGINT, SIG_DFL); }

bool InterruptGuard::interrupted() { return g_interrupted != 0; }

}  // namespace kvick::cli
