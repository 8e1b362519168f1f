#include "base/thread.h"

#include <cstdint>

#if defined(__linux__)
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kvick::base {

#if defined(__linux__) && defined(SYS_sched_setattr)

bool ask_for_slices(std::chrono::microseconds slice) {
  // The first version of struct sched_attr; Debian 12's C library does not declare it.
  struct {
    uint32_t size = 48;
    uint32_t policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 0, deadline = 0, period = 0;
  } attributes;
  static_assert(sizeof(attributes) == 48);
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return false;
  if (attributes.policy != SCHED_OTHER && attributes.policy != SCHED_BATCH) return false;
  attributes.size = sizeof(attributes);
  attributes.runtime = static_cast<uint64_t>(std::chrono::nanoseconds(slice).count());
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

#else

bool ask_for_slices(std::chrono::microseconds) { return false; }

#endif

}  // namespace kvick::base
