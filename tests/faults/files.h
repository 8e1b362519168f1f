#pragma once
// Makes this program's calls on files fail: the system calls of libstdc++'s streams come through
// here, and do not reach the system where a test wants it.

#include <cstdint>
#include <string>

namespace kvick::faults {

enum class FileFault {
  kNoSpace,    // a write: ENOSPC
  kBroken,     // a read or a write: EIO
  kShortRead,  // a read returns half of the bytes asked for, and then the end
  kTorn,       // a write reports success but writes half, as a loss of power leaves it
  kNoRename,   // a rename: EIO
};

// While an object is alive, about one in `one_in` calls on files of the folder has the fault, the
// same calls for the same seed. Only one object at a time.
class FailingFiles {
 public:
  FailingFiles(std::string folder, FileFault fault, uint64_t one_in, uint64_t seed);
  ~FailingFiles();
  FailingFiles(const FailingFiles&) = delete;
  FailingFiles& operator=(const FailingFiles&) = delete;
  // Returns the number of calls that had the fault.
  uint64_t failed() const;
};

}  // namespace kvick::faults
