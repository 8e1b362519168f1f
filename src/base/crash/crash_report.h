#pragma once
// The report of a crashing process: one block on stderr. Then the process ends as it would have
// without the report.

#include <string_view>

#include "base/crash/crash_notes.h"

namespace kvick::base {

// Makes SIGSEGV, SIGABRT (which std::terminate raises), SIGBUS, SIGFPE and SIGILL write a report:
// version, build id, signal, address, the stack as "MODULE+0xOFFSET" lines (addr2line -e MODULE
// 0xOFFSET reads them), and the requests of the running steps. The handler allocates nothing, takes
// no lock, and ends with the signal's default action. Call it once. It does nothing under
// sanitizers, which write their own reports.
void install_crash_report(std::string_view version);
// Sets where the report reads the requests from; null: it lists none. `notes` must stay valid until
// the next call.
void set_crash_notes(const CrashNotes* notes);

}  // namespace kvick::base
