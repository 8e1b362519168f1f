#include "base/crash/crash_report.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <elf.h>
#include <execinfo.h>
#include <iterator>
#include <link.h>
#include <unistd.h>

namespace kvick::base {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL};
constexpr int kMostFrames = 64;
#ifdef KVICK_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif
constexpr size_t kMostModules = 64, kStackBytes = 64 << 10;

struct Module {
  uintptr_t base = 0, begin = 0, end = 0;
  char name[256] = {};
};

// A signal handler takes no arguments of its own, so it reads its data from here.
// install_crash_report fills this once, before it installs the handler.
struct Prepared {
  char version[128] = {}, build[80] = {};
  std::atomic<const CrashNotes*> notes = nullptr;
  Module modules[kMostModules];
  size_t count = 0;
  std::atomic_flag crashed = ATOMIC_FLAG_INIT;
  alignas(16) char stack[kStackBytes];
};
Prepared g_prepared;

// Output buffered on the stack and written to stderr. It allocates nothing.
class Block {
 public:
  ~Block() { flush(); }
  Block& operator<<(const char* text) {
    for (; *text != '\0'; ++text) put(*text);
    return *this;
  }
  Block& number(uint64_t value, unsigned base) {
    char digits[24];
    size_t n = 0;
    do digits[n++] = "0123456789abcdef"[value % base];
    while ((value /= base) > 0);
    while (n > 0) put(digits[--n]);
    return *this;
  }
  // Appends text that another thread wrote and that may be corrupt by now. Stops at the first byte
  // that is not printable, or after 128 bytes.
  void name(const char* text) {
    for (size_t i = 0; i < 128 && text[i] > ' ' && text[i] <= '~'; ++i) put(text[i]);
  }

 private:
  void put(char c) {
    if (used_ == sizeof(bytes_)) flush();
    bytes_[used_++] = c;
  }
  void flush() {
    size_t at = 0;
    while (at < used_) {
      const ssize_t n = write(STDERR_FILENO, bytes_ + at, used_ - at);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    used_ = 0;
  }

  char bytes_[4096];
  size_t used_ = 0;
};

const char* name_of(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "SIGSEGV";
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    default:
      return "SIGILL";
  }
}

void copy(std::string_view from, char* to, size_t room) {
  const size_t n = std::min(from.size(), room - 1);
  std::memcpy(to, from.data(), n);
  to[n] = '\0';
}

// Reads the program's build id, which the linker stores as a note NT_GNU_BUILD_ID.
void read_build_id(const dl_phdr_info& info, const ElfW(Phdr) & header) {
  const auto* at = reinterpret_cast<const char*>(info.dlpi_addr + header.p_vaddr);
  const char* const end = at + header.p_memsz;
  while (end - at >= static_cast<ptrdiff_t>(sizeof(ElfW(Nhdr)))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, at, sizeof(note));
    const char* name = at + sizeof(note);
    const auto* id = reinterpret_cast<const uint8_t*>(name + ((note.n_namesz + 3) & ~3U));
    at = reinterpret_cast<const char*>(id) + ((note.n_descsz + 3) & ~3U);
    if (note.n_type != NT_GNU_BUILD_ID || std::memcmp(name, "GNU", 4) != 0) continue;
    for (size_t i = 0; i < note.n_descsz && 2 * i + 2 < sizeof(g_prepared.build); ++i) {
      g_prepared.build[2 * i] = "0123456789abcdef"[id[i] >> 4];
      g_prepared.build[2 * i + 1] = "0123456789abcdef"[id[i] & 15];
    }
    return;
  }
}

int take_module(dl_phdr_info* info, size_t, void*) {
  if (g_prepared.count == kMostModules) return 1;
  Module& module = g_prepared.modules[g_prepared.count++];
  module.base = info->dlpi_addr;
  module.begin = UINTPTR_MAX;
  const bool program = g_prepared.count == 1;
  if (!program) {
    copy(info->dlpi_name, module.name, sizeof(module.name));
  } else if (const ssize_t n = readlink("/proc/self/exe", module.name, sizeof(module.name) - 1);
             n > 0) {
    module.name[n] = '\0';
  }
  for (size_t i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type == PT_NOTE && program && g_prepared.build[0] == '\0')
      read_build_id(*info, header);
    if (header.p_type != PT_LOAD) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    module.begin = std::min(module.begin, begin);
    module.end = std::max(module.end, begin + header.p_memsz);
  }
  return 0;
}

void write_frame(Block& block, uintptr_t address) {
  for (size_t i = 0; i < g_prepared.count; ++i) {
    const Module& module = g_prepared.modules[i];
    if (address < module.begin || address >= module.end) continue;
    (block << "  " << module.name << "+0x").number(address - module.base, 16) << "\n";
    return;
  }
  (block << "  ?+0x").number(address, 16) << "\n";
}

void write_requests(Block& block) {
  const CrashNotes* const notes = g_prepared.notes;
  if (notes == nullptr) return;
  for (const CrashNotes::Lane& lane : notes->lanes) {
    const size_t count = lane.count;
    if (count == 0) continue;
    block << "requests of the step that ran:";
    for (size_t i = 0; i < std::min(count, CrashNotes::kMostRequests); ++i)
      if (const char* const request = lane.requests[i]; request != nullptr) {
        block << " ";
        block.name(request);
      }
    if (count > CrashNotes::kMostRequests)
      (block << " and ").number(count - CrashNotes::kMostRequests, 10) << " more";
    block << "\n";
  }
}

void report(int signal, siginfo_t* info, void*) {
  // Another thread is already writing its report and will end the process; this thread waits for
  // that.
  if (g_prepared.crashed.test_and_set())
    while (true) pause();
  void* frames[kMostFrames];
  const int count = backtrace(frames, kMostFrames);
  {
    Block block;
    block << "kvick crashed: version " << g_prepared.version << ", build " << g_prepared.build
          << "\nsignal " << name_of(signal);
    if (signal != SIGABRT)
      (block << " at address 0x").number(reinterpret_cast<uintptr_t>(info->si_addr), 16);
    block << "\nstack (addr2line -Cfe MODULE OFFSET reads MODULE+OFFSET):\n";
    for (int i = 0; i < count; ++i) write_frame(block, reinterpret_cast<uintptr_t>(frames[i]));
    write_requests(block);
    block << "end of the crash report\n";
  }
  // SA_RESETHAND has restored the default action, which the signal raised here triggers once this
  // returns.
  raise(signal);
}

}  // namespace

void install_crash_report(std::string_view version) {
  if (kSanitized) return;
  copy(version, g_prepared.version, sizeof(g_prepared.version));
  dl_iterate_phdr(take_module, nullptr);
  // The first call of backtrace loads libgcc, which allocates, so it must not happen in the
  // handler.
  void* frame = nullptr;
  backtrace(&frame, 1);
  // After a stack overflow the thread's stack has no room for the handler. So this thread gets a
  // separate stack for signals.
  stack_t stack = {};
  stack.ss_sp = g_prepared.stack;
  stack.ss_size = sizeof(g_prepared.stack);
  sigaltstack(&stack, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_ONSTACK;
  for (const int signal : kSignals) sigaction(signal, &action, nullptr);
}

void set_crash_notes(const CrashNotes* notes) { g_prepared.notes = notes; }

}  // namespace kvick::base
