#pragma once
// Calls of this program on files that fail: what libstdc++'s streams ask the system for goes
// through here, and does not reach it where a test wants that.

#include <cstdint>
#include <string>

namespace kvick::faults {

enum class FileFault {
  kNoSpace,    // a write: ENOSPC
  kBroken,     // a read or a write: EIO
  kShortRead,  // a read gives half of what was asked for, and then the end
  kTorn,       // a write says that all was written, and half was: what a loss of power leaves
  kNoRename,   // a rename: EIO
};

// While one is alive, of the calls on files in that folder that the fault is of, about one in so
// many has it, the same ones for the same seed. One at a time.
class FailingFiles {
 public:
  FailingFiles(std::string folder, FileFault fault, uint64_t one_in, uint64_t seed);
  ~FailingFiles();
  FailingFiles(const FailingFiles&) = delete;
  FailingFiles& operator=(const FailingFiles&) = delete;
  // Calls that have had it.
  uint64_t failed() const;
};

}  // namespace kvick::faults
