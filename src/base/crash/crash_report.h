#pragma once
// What a process says when it crashes: one block on stderr, then what would have happened without
// it.

#include <string_view>

#include "base/crash/crash_notes.h"

namespace kvick::base {

// From now on SIGSEGV, SIGABRT (which std::terminate raises), SIGBUS, SIGFPE and SIGILL write
// version, build id, signal, address, the stack as "MODULE+0xOFFSET" lines, which addr2line -e
// MODULE 0xOFFSET reads, and the requests of the steps that ran. The handler allocates nothing,
// takes no lock, and ends with the signal's default action. Once. Does nothing under sanitizers,
// which have reports of their own.
void install_crash_report(std::string_view version);
// What it reads the requests from, until another call; null: from nothing.
void set_crash_notes(const CrashNotes* notes);

}  // namespace kvick::base
