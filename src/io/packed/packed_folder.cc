#include "io/packed/packed_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <stdexcept>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"

namespace kvick::io {
namespace {

namespace fs = std::filesystem;
using base::fail;

constexpr std::string_view kKind = ".packed", kPartKind = ".part";

struct Known {
  fs::path path;
  uint64_t bytes = 0;
  int64_t used = 0;  // nanoseconds since 1970
};

// Returns the files of packed weights, the least recently used first.
std::vector<Known> known_files(const fs::path& folder, std::string_view kind) {
  std::vector<Known> files;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    struct stat info {};
    // A file that another process deletes meanwhile takes no room.
    if (it->path().extension() != kind || stat(it->path().c_str(), &info) != 0 ||
        !S_ISREG(info.st_mode))
      continue;
    files.push_back({.path = it->path(),
                     .bytes = static_cast<uint64_t>(info.st_size),
                     .used = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec});
  }
  std::sort(files.begin(), files.end(),
            [](const Known& a, const Known& b) { return a.used < b.used; });
  return files;
}

// Removes part files of processes that have died: those without a lock.
void remove_left_parts(const fs::path& folder) {
  for (const Known& known : known_files(folder, kPartKind)) {
    const int fd = ::open(known.path.c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0) continue;
    struct stat ours {
    }, named{};
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &ours) == 0 &&
        stat(known.path.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
        ours.st_dev == named.st_dev)
      unlink(known.path.c_str());
    ::close(fd);
  }
}

// Returns why a file that exists cannot be opened or mapped, as a clause; "" if it can be, or does
// not exist. It may belong to another user, or be on a file system without mappings. One page is
// enough to see that; memory for all of the file is can_map()'s question.
std::string refusal_of(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno == ENOENT ? "" : fmt::format("opened: {}", std::strerror(errno));
  void* const page = mmap(nullptr, base::page_bytes(), PROT_READ, MAP_SHARED, fd, 0);
  const int error = page == MAP_FAILED ? errno : 0;
  if (page != MAP_FAILED) munmap(page, base::page_bytes());
  ::close(fd);
  return error == 0 || error == ENOMEM ? "" : fmt::format("mapped: {}", std::strerror(error));
}

// Returns whether this process may map so many bytes more. A limit (ulimit -v) may forbid it.
bool can_map(uint64_t bytes) {
  void* const room =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return false;
  munmap(room, bytes);
  return true;
}

base::Result<PackedFile> open_checked(const fs::path& path, const PackedPlan& plan,
                                      base::ThreadPool& pool, PackedFile::Progress* progress,
                                      PackedFile::After after) {
  KVICK_TRY(PackedFile file, PackedFile::open(path, plan));
  KVICK_TRY_VOID(file.check(pool, progress, after));
  return file;
}

std::string gigabytes(uint64_t bytes) {
  return fmt::format("{:.1f} GB", static_cast<double>(bytes) / 1e9);
}

}  // namespace

fs::path PackedFolder::path_of(const PackedKey& key) const {
  return options_.folder / (key_text(key) + std::string(kKind));
}

std::optional<PackedFile> PackedFolder::find(const PackedPlan& plan, base::ThreadPool& pool,
                                             PackedFile::Progress* progress) const {
  const fs::path path = path_of(plan.key);
  std::error_code none;
  if (!fs::exists(path, none)) return std::nullopt;
  try {
    auto file = open_checked(path, plan, pool, progress, options_.after_check);
    if (file.ok()) {
      // Fails in a read-only folder, in which files then have no order of use.
      utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
      return std::move(file).value();
    }
    options_.say(fmt::format("{} is damaged: {}; the weights are packed again", path.string(),
                             file.error().message));
    fs::remove(path, none);
  } catch (const std::bad_alloc&) {  // the file may be good, so it is neither deleted nor replaced:
  } catch (const std::runtime_error&) {  // begin() refuses as well, and says what is wrong
  }
  return std::nullopt;
}

base::Status<> PackedFolder::make_room(uint64_t bytes) const {
  const fs::path& folder = options_.folder;
  remove_left_parts(folder);
  const std::vector<Known> files = known_files(folder, kKind);
  uint64_t held = 0;
  for (const std::string_view kind : {kKind, kPartKind})
    for (const Known& known : known_files(folder, kind)) held += known.bytes;
  std::error_code error;
  uint64_t free = fs::space(folder, error).available;
  if (error) return fail("cannot look up {}: {}", folder.string(), error.message());
  const uint64_t limit = options_.max_bytes != 0 ? options_.max_bytes : (free + held) / 4;
  if (bytes > limit)
    return fail("they take {}, and {} may hold {}", gigabytes(bytes), folder.string(),
                gigabytes(limit));
  for (const Known& known : files) {
    if (held + bytes <= limit && bytes <= free) break;
    if (!fs::remove(known.path, error)) continue;
    held -= known.bytes;
    free += known.bytes;
  }
  free = fs::space(folder, error).available;
  if (error || bytes > free)
    return fail("they take {}, and the disk of {} has {} free", gigabytes(bytes), folder.string(),
                gigabytes(error ? 0 : free));
  return base::Done{};
}

base::Result<PackedWriter> PackedFolder::begin(const PackedPlan& plan) const {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error)
    return fail("cannot make the folder {}: {}", options_.folder.string(), error.message());
  if (const std::string why = refusal_of(path_of(plan.key)); !why.empty())
    return fail("{} is there, but cannot be {}", path_of(plan.key).string(), why);
  if (fs::exists(path_of(plan.key), error) && !can_map(plan.file_bytes() + kPackedUnit))
    return fail(
        "{} is there, but the system lets this process map no {} more: raise its limit of memory "
        "(ulimit -v)",
        path_of(plan.key).string(), gigabytes(plan.file_bytes()));
  KVICK_TRY(PackedWriter writer, PackedWriter::create(path_of(plan.key), plan));
  KVICK_TRY_VOID(make_room(plan.file_bytes()));
  return writer;
}

std::vector<PackedEntry> packed_entries(const fs::path& folder) {
  std::vector<PackedEntry> entries;
  for (Known& known : known_files(folder, kKind)) {
    const auto file = base::MappedFile::open(known.path.string());
    PackedEntry entry = {
        .path = std::move(known.path), .bytes = known.bytes, .used = known.used, .model = {}};
    if (file.ok()) {
      auto head = parse_packed_head(file->bytes(), file->bytes().size());
      if (head.ok()) entry.model = std::move(head->model);
    }
    entries.push_back(std::move(entry));
  }
  std::reverse(entries.begin(), entries.end());
  return entries;
}

}  // namespace kvick::io
