#include "kv/rows/reservation.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sys/mman.h>
#include <utility>

#include "base/memory.h"

namespace kvick::kv {
namespace {

constexpr char kSwitch[] = "/sys/kernel/mm/transparent_hugepage/enabled";
constexpr char kSize[] = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
constexpr char kMostMappings[] = "/proc/sys/vm/max_map_count";
constexpr char kOvercommit[] = "/proc/sys/vm/overcommit_memory";
constexpr size_t kHugePage = size_t{2} << 20;

base::Error refused(size_t bytes) {
  return base::fail(
      "the system refuses {} bytes of address space ({}): give sequences a shorter context, keep "
      "fewer, or raise vm.max_map_count (and keep vm.overcommit_memory below 2)",
      bytes, std::strerror(errno));
}

}  // namespace

size_t bytes_of(Pages pages) { return pages == Pages::kHuge ? kHugePage : base::page_bytes(); }

base::Status<> huge_pages_work() {
  std::string modes;
  std::getline(std::ifstream(kSwitch), modes);
  if (modes.find("[always]") == std::string::npos && modes.find("[madvise]") == std::string::npos)
    return base::fail("the system makes no huge pages ({} says '{}')", kSwitch, modes);
  size_t size = 0;
  std::ifstream(kSize) >> size;
  if (size != kHugePage)
    return base::fail("huge pages of {} bytes are supported, not {} ({})", kHugePage, size, kSize);
  return base::Done{};
}

uint64_t most_mappings() {
  uint64_t most = 65'530;  // the kernel's default, where /proc cannot be read
  std::ifstream(kMostMappings) >> most;
  return most;
}

bool promises_memory() {
  int mode = 0;
  std::ifstream(kOvercommit) >> mode;
  return mode == 2;
}

base::Result<Reservation> Reservation::make(size_t bytes, Pages pages) {
  Reservation made;
  const size_t slack = pages == Pages::kHuge ? kHugePage : 0;
  if (bytes > SIZE_MAX - slack) return base::fail("no range of {} bytes exists", bytes);
  void* mapping = mmap(nullptr, bytes + slack, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return refused(bytes);
  made.mapping_ = mapping;
  made.mapped_bytes_ = bytes + slack;
  const auto address = reinterpret_cast<uintptr_t>(mapping);
  made.data_ = static_cast<std::byte*>(mapping) + (slack == 0 ? 0 : -address % kHugePage);
  // Advises in both cases, so that the system's default "always" does not override the request. A
  // kernel without huge pages refuses MADV_NOHUGEPAGE, which does no harm.
  const int advice = pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE;
  if (madvise(mapping, made.mapped_bytes_, advice) != 0 && pages == Pages::kHuge)
    return base::fail("the system refuses huge pages: {}", std::strerror(errno));
  return made;
}

base::Result<Reservation> Reservation::map(const FileRange& range, Writes writes) {
  const int kind = writes == Writes::kShared ? MAP_SHARED : MAP_PRIVATE;
  void* mapping = mmap(nullptr, range.bytes, PROT_READ | PROT_WRITE, kind | MAP_NORESERVE,
                       range.file, static_cast<off_t>(range.offset));
  if (mapping == MAP_FAILED) return refused(range.bytes);
  Reservation made;
  made.data_ = static_cast<std::byte*>(mapping);
  made.mapping_ = mapping;
  made.mapped_bytes_ = range.bytes;
  // As in make: a system may be set to use huge pages for files in memory. A system without huge
  // pages refuses the advice, which does no harm.
  madvise(mapping, range.bytes, MADV_NOHUGEPAGE);
  return made;
}

Reservation::~Reservation() {
  if (mapping_ == nullptr || munmap(mapping_, mapped_bytes_) == 0) return;
  // The kernel merges neighbouring mappings and may have to split one, which it refuses at
  // vm.max_map_count. Then the addresses are lost, but the memory is given back.
  madvise(mapping_, mapped_bytes_, MADV_DONTNEED);
}

void Reservation::release(size_t offset, size_t bytes) const {
  if (bytes > 0) madvise(data_ + offset, bytes, MADV_DONTNEED);
}

void Reservation::swap(Reservation& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
}

}  // namespace kvick::kv
