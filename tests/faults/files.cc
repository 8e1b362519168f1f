#include "files.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <dlfcn.h>
#include <mutex>
#include <set>
#include <sys/uio.h>
#include <unistd.h>

namespace kvick::faults {
namespace {

// Every call of the program reads these without the mutex; the mutex guards everything else.
std::atomic<bool> g_armed{false};
std::atomic<uint64_t> g_failed_calls{0};

struct Armed {
  std::mutex mutex;
  std::string folder;
  FileFault fault = FileFault::kBroken;
  uint64_t one_in = 0, state = 0;
  std::set<int> ended;  // descriptors that had a short read
};
Armed& armed() {
  static Armed all;
  return all;
}

std::string path_of(int descriptor) {
  char link[64], path[4096];
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  const ssize_t n = ::readlink(link, path, sizeof path);
  return {path, static_cast<size_t>(std::max<ssize_t>(n, 0))};
}

bool draws(Armed& all) {
  all.state = all.state * 6364136223846793005 + 1442695040888963407;
  const bool fails = (all.state >> 33) % all.one_in == 0;
  if (fails) ++g_failed_calls;
  return fails;
}

// Returns whether a call on this file fails, and sets its fault. Most calls return early because no
// fault is armed.
template <typename Path>
bool fails(std::initializer_list<FileFault> of, FileFault& fault, const Path& path) {
  if (!g_armed) return false;
  Armed& all = armed();
  const std::lock_guard lock(all.mutex);
  fault = all.fault;
  if (std::find(of.begin(), of.end(), fault) == of.end()) return false;
  return path().starts_with(all.folder) && draws(all);
}

bool has_ended(int descriptor) {
  Armed& all = armed();
  const std::lock_guard lock(all.mutex);
  return all.ended.contains(descriptor);
}

void end(int descriptor, bool ended) {
  Armed& all = armed();
  const std::lock_guard lock(all.mutex);
  ended ? (void)all.ended.insert(descriptor) : (void)all.ended.erase(descriptor);
}

template <typename Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

ssize_t real_write(int descriptor, const void* bytes, size_t count) {
  static auto* const kWrite = next<ssize_t(int, const void*, size_t)>("write");
  return kWrite(descriptor, bytes, count);
}

ssize_t fail(int error) {
  errno = error;
  return -1;
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  FileFault fault{};
  const auto wanted = {FileFault::kNoSpace, FileFault::kBroken, FileFault::kTorn};
  if (!fails(wanted, fault, [&] { return path_of(descriptor); }))
    return real_write(descriptor, bytes, count);
  if (fault != FileFault::kTorn) return fail(fault == FileFault::kNoSpace ? ENOSPC : EIO);
  real_write(descriptor, bytes, count / 2);
  return static_cast<ssize_t>(count);
}

ssize_t read(int descriptor, void* bytes, size_t count) {
  static auto* const kRead = next<ssize_t(int, void*, size_t)>("read");
  if (!g_armed) return kRead(descriptor, bytes, count);
  if (has_ended(descriptor)) return end(descriptor, false), 0;
  FileFault fault{};
  const auto wanted = {FileFault::kBroken, FileFault::kShortRead};
  if (!fails(wanted, fault, [&] { return path_of(descriptor); }))
    return kRead(descriptor, bytes, count);
  if (fault == FileFault::kBroken) return fail(EIO);
  end(descriptor, true);
  return kRead(descriptor, bytes, std::max<size_t>(count / 2, 1));
}

}  // namespace

FailingFiles::FailingFiles(std::string folder, FileFault fault, uint64_t one_in, uint64_t seed) {
  Armed& all = armed();
  const std::lock_guard lock(all.mutex);
  all.folder = std::move(folder);
  all.fault = fault;
  all.one_in = one_in;
  all.state = seed;
  all.ended.clear();
  g_failed_calls = 0;
  g_armed = true;
}

FailingFiles::~FailingFiles() { g_armed = false; }
uint64_t FailingFiles::failed() const { return g_failed_calls; }

}  // namespace kvick::faults

extern "C" ssize_t write(int descriptor, const void* bytes, size_t count) {
  return kvick::faults::write(descriptor, bytes, count);
}
// Streams use writev for their buffer and what follows it. Writes one part after the other.
extern "C" ssize_t writev(int descriptor, const iovec* parts, int count) {
  ssize_t written = 0;
  for (int i = 0; i < count; ++i) {
    const ssize_t n = kvick::faults::write(descriptor, parts[i].iov_base, parts[i].iov_len);
    if (n < 0) return written > 0 ? written : n;
    written += n;
    if (static_cast<size_t>(n) < parts[i].iov_len) break;
  }
  return written;
}
extern "C" ssize_t read(int descriptor, void* bytes, size_t count) {
  return kvick::faults::read(descriptor, bytes, count);
}
extern "C" int rename(const char* from, const char* to) noexcept {
  namespace faults = kvick::faults;
  static auto* const kRename = faults::next<int(const char*, const char*)>("rename");
  faults::FileFault fault{};
  if (faults::fails({faults::FileFault::kNoRename}, fault, [&] { return std::string(to); })) {
    errno = EIO;
    return -1;
  }
  return kRename(from, to);
}
