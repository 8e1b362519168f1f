#include "io/packed/packed_file.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/memory.h"

namespace kvick::io {

using base::fail;

namespace {

constexpr char kMagic[8] = {'k', 'v', 'i', 'c', 'k', 'P', 'W', '\n'};
constexpr uint32_t kVersion = 1;
constexpr size_t kAlignment = 64;         // of matrices
constexpr uint32_t kMostPath = 64 << 10;  // bytes of the model's path
constexpr size_t kReported = 64;          // pieces checked between two calls of progress

struct Header {
  char magic[8];
  uint32_t version, model_bytes;
  PackedKey key;
  uint64_t file_bytes, pieces;
  XXH128_hash_t sum;
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Returns the checksum of a header (with zeros in its own field) and of the rest up to the data.
XXH128_hash_t sum_of(Header header, std::span<const std::byte> rest) {
  header.sum = {};
  const XXH128_hash_t first = XXH3_128bits(&header, sizeof header);
  return XXH3_128bits_withSeed(rest.data(), rest.size(), first.low64 ^ first.high64);
}

std::runtime_error refused(std::string_view what, int error) {
  return std::runtime_error(fmt::format("cannot be {}: {}", what, std::strerror(error)));
}

// Maps the whole file at a multiple of a huge page. Files that were written in large pieces are in
// huge pages of the page cache, and are then mapped as huge pages. Throws std::bad_alloc, or
// std::runtime_error for any other reason of the system.
std::byte* map_file(int fd, uint64_t bytes) {
  const uint64_t kept = round_up(bytes, base::page_bytes());
  void* const room = mmap(nullptr, kept + kPackedUnit, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) throw std::bad_alloc();
  const auto begin = reinterpret_cast<uintptr_t>(room), first = round_up(begin, kPackedUnit);
  if (first > begin) munmap(room, first - begin);
  munmap(reinterpret_cast<void*>(first + kept), begin + kPackedUnit - first);
  void* const mapped =
      mmap(reinterpret_cast<void*>(first), bytes, PROT_READ, MAP_SHARED | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    const int error = errno;
    munmap(reinterpret_cast<void*>(first), kept);
    if (error == ENOMEM) throw std::bad_alloc();
    throw refused("mapped", error);
  }
  // Advice only: data that is not in memory is read 2 MiB at a time.
  madvise(mapped, bytes, MADV_HUGEPAGE);
  return static_cast<std::byte*>(mapped);
}

}  // namespace

std::string key_text(const PackedKey& key) {
  return fmt::format("{:016x}{:016x}", key.high, key.low);
}

PackedPlan::PackedPlan(PackedKey its_key, std::string path, std::span<const PackedMatrix> matrices)
    : key(its_key), model(std::move(path)) {
  if (model.size() > kMostPath) model.resize(kMostPath);
  for (const PackedMatrix& matrix : matrices) {
    offsets.push_back(data_bytes);
    sizes.push_back(matrix.bytes);
    data_bytes += round_up(matrix.bytes, kAlignment);
  }
  pieces = (data_bytes + kPackedPiece - 1) / kPackedPiece;
  head_bytes = round_up(sizeof(Header) + model.size() + pieces * sizeof(uint64_t), kPackedUnit);
}

uint64_t piece_sum(std::span<const std::byte> piece, uint64_t number) {
  return XXH3_64bits_withSeed(piece.data(), piece.size(), number);
}

std::vector<std::byte> packed_head(const PackedPlan& plan, std::span<const uint64_t> sums) {
  KVICK_CHECK(sums.size() == plan.pieces, "{} sums of {} pieces", sums.size(), plan.pieces);
  std::vector<std::byte> bytes(plan.head_bytes);
  Header header = {.magic = {},
                   .version = kVersion,
                   .model_bytes = static_cast<uint32_t>(plan.model.size()),
                   .key = plan.key,
                   .file_bytes = plan.file_bytes(),
                   .pieces = plan.pieces,
                   .sum = {}};
  std::copy_n(kMagic, sizeof kMagic, header.magic);
  std::byte* const rest = bytes.data() + sizeof header;
  std::copy_n(reinterpret_cast<const std::byte*>(plan.model.data()), plan.model.size(), rest);
  const auto all = std::as_bytes(sums);
  std::copy_n(all.data(), all.size(), rest + plan.model.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  put_head_sum(bytes);
  return bytes;
}

void put_head_sum(std::span<std::byte> head) {
  Header header;
  std::memcpy(&header, head.data(), sizeof header);
  header.sum = sum_of(header, head.subspan(sizeof header));
  std::memcpy(head.data(), &header, sizeof header);
}

base::Result<PackedHead> parse_packed_head(std::span<const std::byte> image, uint64_t file_bytes) {
  Header header;
  if (image.size() < sizeof header || file_bytes < image.size())
    return fail("it is cut short: {} bytes", file_bytes);
  std::memcpy(&header, image.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return fail("it does not begin as a file of packed weights");
  if (header.version != kVersion)
    return fail("it is of version {}, not {}", header.version, kVersion);
  if (header.file_bytes != file_bytes)
    return fail("it has {} bytes, but says {}", file_bytes, header.file_bytes);
  // A piece is much larger than its checksum, so this limit keeps the sums below from overflowing.
  if (header.model_bytes > kMostPath || header.pieces > file_bytes / sizeof(uint64_t))
    return fail("it says {} pieces and a path of {} bytes", header.pieces, header.model_bytes);
  const uint64_t sums = sizeof header + header.model_bytes;
  const uint64_t data_begin = round_up(sums + header.pieces * sizeof(uint64_t), kPackedUnit);
  if (data_begin > image.size())
    return fail("its head of {} bytes is cut short to {}", data_begin, image.size());
  const uint64_t data_bytes = file_bytes - data_begin;
  if (header.pieces != (data_bytes + kPackedPiece - 1) / kPackedPiece)
    return fail("it says {} pieces for {} bytes", header.pieces, data_bytes);
  const auto rest = image.first(data_begin).subspan(sizeof header);
  if (!XXH128_isEqual(header.sum, sum_of(header, rest)))
    return fail("the checksum of its head is wrong");
  PackedHead head = {.key = header.key,
                     .model = {},
                     .file_bytes = file_bytes,
                     .data_begin = data_begin,
                     .sums = std::vector<uint64_t>(header.pieces)};
  head.model.assign(reinterpret_cast<const char*>(rest.data()), header.model_bytes);
  std::memcpy(head.sums.data(), rest.data() + header.model_bytes, header.pieces * sizeof(uint64_t));
  return head;
}

base::Result<PackedFile> PackedFile::open(const std::filesystem::path& path,
                                          const PackedPlan& plan) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw refused("opened", errno);
  PackedFile file;
  file.fd_ = fd;
  file.path_ = path.string();
  struct stat info {};
  if (fstat(fd, &info) != 0) throw refused("looked up", errno);
  if (!S_ISREG(info.st_mode) || info.st_size <= 0) return fail("it is no regular file, or empty");
  file.bytes_ = map_file(fd, static_cast<uint64_t>(info.st_size));
  file.size_ = static_cast<uint64_t>(info.st_size);
  KVICK_TRY(PackedHead head, parse_packed_head({file.bytes_, file.size_}, file.size_));
  if (head.key != plan.key) return fail("it has another key than its name");
  if (head.file_bytes - head.data_begin != plan.data_bytes)
    return fail("it has {} bytes of weights, not {}", head.file_bytes - head.data_begin,
                plan.data_bytes);
  file.data_begin_ = head.data_begin;
  file.sums_ = std::move(head.sums);
  file.offsets_ = plan.offsets;
  file.sizes_ = plan.sizes;
  return file;
}

PackedFile::~PackedFile() {
  if (bytes_ != nullptr) munmap(bytes_, size_);
  if (fd_ >= 0) ::close(fd_);
}

void PackedFile::swap(PackedFile& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  std::swap(size_, other.size_);
  std::swap(data_begin_, other.data_begin_);
  std::swap(sums_, other.sums_);
  std::swap(offsets_, other.offsets_);
  std::swap(sizes_, other.sizes_);
}

base::Status<> PackedFile::check(base::ThreadPool& pool, Progress* progress, After after) const {
  constexpr size_t kNone = SIZE_MAX;
  const std::span<const std::byte> all = data();
  for (size_t first = 0; first < sums_.size(); first += kReported) {
    const size_t count = std::min(kReported, sums_.size() - first);
    std::atomic<size_t> wrong = kNone;
    pool.parallel_for(count, 1, [&](size_t begin, size_t end, unsigned) {
      for (size_t i = first + begin; i < first + end; ++i) {
        const size_t at = i * kPackedPiece;
        const auto piece = all.subspan(at, std::min(kPackedPiece, all.size() - at));
        if (piece_sum(piece, i) != sums_[i]) wrong = i;
      }
    });
    if (wrong != kNone)
      return fail("the checksum of its bytes from {} on is wrong",
                  data_begin_ + wrong * kPackedPiece);
    if (after == After::kUnmapped)
      unmap(all.subspan(first * kPackedPiece)
                .first(std::min(count * kPackedPiece, all.size() - first * kPackedPiece)));
    if (progress != nullptr)
      (*progress)(std::min<uint64_t>(all.size(), (first + count) * kPackedPiece), all.size());
  }
  return base::Done{};
}

void PackedFile::unmap(std::span<const std::byte> part) const {
  // Only whole pages: the first and last page may hold other data too.
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const uintptr_t first = round_up(begin, base::page_bytes());
  const uintptr_t end = (begin + part.size()) / base::page_bytes() * base::page_bytes();
  if (first < end) madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

void PackedFile::will_need(std::span<const std::byte> part) const {
  posix_fadvise(fd_, part.data() - bytes_, static_cast<off_t>(part.size()), POSIX_FADV_WILLNEED);
}

base::Status<> PackedFile::read(std::span<const std::byte> part, std::byte* to) const {
  size_t done = 0;
  while (done < part.size()) {
    const ssize_t got =
        pread(fd_, to + done, part.size() - done, part.data() - bytes_ + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return fail("{} cannot be read: {}", path_,
                  got < 0 ? std::strerror(errno) : "it has been cut short");
    done += static_cast<size_t>(got);
  }
  return base::Done{};
}

}  // namespace kvick::io
