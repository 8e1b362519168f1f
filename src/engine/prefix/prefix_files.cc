#include "engine/prefix/prefix_files.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <fstream>
#include <stdexcept>
#include <unistd.h>

#include "base/text_file.h"
#include "base/thread.h"

namespace kvick::engine {
namespace {

namespace fs = std::filesystem;

// Halves the measured cost per byte after this many seconds without a read. Blocks are not read if
// reading seems slower than computing, so a disk that was slow once would never be measured again.
constexpr double kHalfLife = 10;

std::optional<std::string> read_whole(const fs::path& path, size_t max_bytes) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error || size > max_bytes) return std::nullopt;
  std::ifstream in(path, std::ios::binary);
  if (!in.is_open() && (errno == EMFILE || errno == ENFILE))  // the file stays: see try_read
    throw std::runtime_error("no descriptor is left");
  std::string bytes(size, '\0');
  in.read(bytes.data(), static_cast<std::streamsize>(size));
  if (!in.is_open() || in.bad()) return std::nullopt;
  bytes.resize(static_cast<size_t>(in.gcount()));
  return bytes;
}

bool write_whole(const fs::path& path, std::string_view bytes) {
  return base::write_file(path, bytes).ok();
}

void remove_file(const fs::path& path) {
  std::error_code gone;
  fs::remove(path, gone);
}

std::optional<BlockId> id_of(const fs::path& path) {
  const std::string name = path.filename().string();
  BlockId id;
  if (name.size() != 2 * id.bytes.size() + 3) return std::nullopt;
  for (size_t i = 0; i < id.bytes.size(); ++i) {
    const char* digits = &name[2 * i];
    if (std::from_chars(digits, digits + 2, id.bytes[i], 16).ptr != digits + 2) return std::nullopt;
  }
  return id.name() == name ? std::optional(id) : std::nullopt;
}

// Another process may be writing a half written file. Its process id may be of another machine or
// container, so the file's age decides; writing a block takes seconds.
constexpr std::chrono::hours kWriterGone{1};

// Whether a file is named as an earlier version named its files, by 32 digits, or was left half
// written: NAME.kv.PROCESS.part.
bool is_left_over(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  const size_t digits = name.find_first_not_of("0123456789abcdef");
  if ((digits != 32 && digits != 64) || name.compare(digits, 3, ".kv") != 0) return false;
  if (name.size() == digits + 3) return digits == 32;
  std::error_code gone;
  const fs::file_time_type written = entry.last_write_time(gone);
  return name[digits + 3] == '.' && name.ends_with(".part") && !gone &&
         written < fs::file_time_type::clock::now() - kWriterGone;
}

}  // namespace

PrefixFiles::PrefixFiles(PrefixFilesOptions options) : options_(std::move(options)) {
  if (!options_.read) options_.read = read_whole;
  if (!options_.write) options_.write = write_whole;
  if (!options_.remove) options_.remove = remove_file;
}

base::Result<std::unique_ptr<PrefixFiles>> PrefixFiles::open(PrefixFilesOptions options) {
  std::unique_ptr<PrefixFiles> files(new PrefixFiles(std::move(options)));
  KVICK_TRY_VOID(files->scan());
  files->writer_ =
      base::start_thread("files of rows", [all = files.get()] { all->write_queued(); });
  files->reader_ = base::start_thread("files of rows", [all = files.get()] { all->read_queued(); });
  return files;
}

PrefixFiles::~PrefixFiles() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    stop_by_ = options_.clock() + options_.closing_seconds;
  }
  queued_.notify_all();
  if (writer_.joinable()) writer_.join();
  if (reader_.joinable()) reader_.join();
}

fs::path PrefixFiles::path_of(const BlockId& id) const { return options_.folder / id.name(); }

base::Status<> PrefixFiles::scan() {
  std::error_code error;
  fs::create_directories(options_.folder, error);
  if (error || ::access(options_.folder.c_str(), R_OK | W_OK | X_OK) != 0)
    return base::fail("the folder {} for the prefix cache cannot be {}: {}",
                      options_.folder.string(), error ? "made" : "read and written",
                      error ? error.message() : std::generic_category().message(errno));
  struct Found {
    fs::file_time_type used;
    Known known;
  };
  std::vector<Found> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(options_.folder, error)) {
    std::error_code gone;
    if (!entry.is_regular_file(gone)) continue;
    if (const auto id = id_of(entry.path()))
      found.push_back({entry.last_write_time(gone), {*id, entry.file_size(gone)}});
    else if (is_left_over(entry))
      fs::remove(entry.path(), gone);
  }
  if (error)
    return base::fail("the folder {} for the prefix cache cannot be read: {}",
                      options_.folder.string(), error.message());
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.used < b.used; });
  for (const Found& one : found) enter(one.known.id, one.known.bytes);
  for (const fs::path& path : make_room()) options_.remove(path);
  return base::Done{};
}

void PrefixFiles::enter(const BlockId& id, uint64_t bytes) {
  forget(id);
  std::list<Known> one(1, {id, bytes});
  by_id_.emplace(id, one.begin());
  files_.splice(files_.end(), one);
  counts_.bytes += bytes;
  ++counts_.files;
}

void PrefixFiles::forget(const BlockId& id) {
  const auto at = by_id_.find(id);
  if (at == by_id_.end()) return;
  counts_.bytes -= at->second->bytes;
  --counts_.files;
  files_.erase(at->second);
  by_id_.erase(at);
}

// Evicts files from the list; needs the mutex. The caller removes the returned paths without the
// mutex, so that other threads do not wait for the disk.
std::vector<fs::path> PrefixFiles::make_room() {
  std::vector<fs::path> evicted;
  while (counts_.bytes > options_.max_bytes && !files_.empty()) {
    const BlockId id = files_.front().id;
    try {
      evicted.push_back(path_of(id));
    } catch (const std::bad_alloc&) {  // evicts the rest later: `evicted` must be returned
      break;
    }
    forget(id);
    ++counts_.evictions;
  }
  return evicted;
}

size_t PrefixFiles::known(std::span<const BlockId> ids) const {
  const std::lock_guard lock(mutex_);
  size_t n = 0;
  while (n < ids.size() && by_id_.contains(ids[n])) ++n;
  return n;
}

void PrefixFiles::keep(const BlockKey& key, MakeRows make_rows) {
  const std::lock_guard lock(mutex_);
  if (const auto at = by_id_.find(key.id); at != by_id_.end()) {
    files_.splice(files_.end(), files_, at->second);
    return;
  }
  if (at_write_ == key.id) return;
  for (const auto& [queued, rows] : writes_)
    if (queued.id == key.id) return;
  if (block_bytes(key.row_bytes) > options_.max_bytes ||
      queued_bytes_ + key.row_bytes > options_.most_queued_bytes) {
    ++counts_.dropped_writes;
    return;
  }
  writes_.emplace_back(key, make_rows());
  queued_bytes_ += key.row_bytes;
  queued_.notify_all();
}

// Returns the bytes written; nothing if writing failed, also for lack of memory.
std::optional<uint64_t> PrefixFiles::write_one(const BlockKey& key,
                                               const BlockRows& rows) noexcept {
  try {
    const std::string bytes = encode_block(key.id, *rows);
    if (options_.write(path_of(key.id), bytes)) return bytes.size();
  } catch (...) {
  }
  return std::nullopt;
}

void PrefixFiles::write_queued() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    if (writes_.empty() && reads_.empty()) idle_.notify_all();
    queued_.wait(
        lock, [&] { return writes_.empty() ? stopping_ : at_read_ != writes_.front().first.id; });
    if (stopping_ && (writes_.empty() || options_.clock() >= stop_by_)) return;
    const auto [key, rows] = std::move(writes_.front());
    writes_.pop_front();
    writing_ = true;
    at_write_ = key.id;
    lock.unlock();
    const std::optional<uint64_t> written = write_one(key, rows);
    lock.lock();
    queued_bytes_ -= key.row_bytes;
    std::vector<fs::path> evicted;
    try {
      if (written) enter(key.id, *written);
      ++(written ? counts_.writes : counts_.failed_writes);
      evicted = make_room();
    } catch (const std::bad_alloc&) {  // the file is not in the list: nobody reads it
      ++counts_.failed_writes;
    }
    at_write_.reset();
    lock.unlock();
    for (const fs::path& path : evicted) options_.remove(path);
    lock.lock();
    writing_ = false;
  }
}

std::shared_ptr<PrefixLookup> PrefixFiles::look_up(std::vector<BlockId> ids, double) {
  auto lookup = std::make_shared<PrefixLookup>(std::move(ids));
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < lookup->ids.size(); ++i)
      lookup->has[i] = by_id_.contains(lookup->ids[i]) ? 1 : 0;
  }
  lookup->finish();
  return lookup;
}

std::shared_ptr<PrefixRead> PrefixFiles::read(std::vector<BlockKey> keys) {
  auto read = std::make_shared<PrefixRead>(std::move(keys));
  const std::lock_guard lock(mutex_);
  reads_.push_back(read);
  queued_.notify_all();
  return read;
}

void PrefixFiles::abandon(PrefixRead& read) {
  if (!read.abandon()) return;
  const std::lock_guard lock(mutex_);
  ++counts_.late;
}

// Returns false if the block is missing or damaged: the rows after it are of no use then.
bool PrefixFiles::read_one(PrefixRead& read, const BlockKey& key) {
  const BlockId& id = key.id;
  const double began = options_.clock();
  // Accepts twice the expected size: a file that is too long then counts as torn, not as missing.
  std::optional<std::string> found = options_.read(path_of(id), 2 * block_bytes(key.row_bytes));
  const bool missing = !found.has_value();
  std::string bytes = std::move(found).value_or(std::string());
  const auto rows = decode_block(id, key.row_bytes, std::as_bytes(std::span(bytes)));
  const double now = options_.clock(), seconds = now - began;
  std::error_code gone;
  if (rows.ok()) fs::last_write_time(path_of(id), fs::file_time_type::clock::now(), gone);
  std::unique_lock lock(mutex_);
  if (rows.ok()) {
    const double rate = seconds / static_cast<double>(bytes.size());
    seconds_per_byte_ = seconds_per_byte_ == 0 ? rate : 0.75 * seconds_per_byte_ + 0.25 * rate;
    measured_at_ = now;
    ++counts_.hits;
    if (const auto at = by_id_.find(id); at != by_id_.end())
      files_.splice(files_.end(), files_, at->second);
    read.add(std::move(bytes));
    return true;
  }
  ++(missing ? counts_.missing : rows.error() == Damage::kTorn ? counts_.torn : counts_.foreign);
  forget(id);
  lock.unlock();
  options_.remove(path_of(id));
  return false;
}

// As read_one, but a block that is being written counts as missing. If read_one throws (no memory,
// no descriptor), the file counts as missing but stays.
bool PrefixFiles::try_read(PrefixRead& read, const BlockKey& key) noexcept {
  std::unique_lock lock(mutex_);
  if (at_write_ == key.id) {
    ++counts_.missing;
    return false;
  }
  at_read_ = key.id;
  lock.unlock();
  bool good = false, thrown = false;
  try {
    good = read_one(read, key);
  } catch (...) {
    thrown = true;
  }
  lock.lock();
  if (thrown) ++counts_.missing;
  at_read_.reset();
  if (!writes_.empty()) queued_.notify_all();  // the writer may wait for this block
  return good;
}

void PrefixFiles::read_queued() noexcept {
  std::unique_lock lock(mutex_);
  while (true) {
    queued_.wait(lock, [&] { return stopping_ || !reads_.empty(); });
    if (stopping_) return;
    const std::shared_ptr<PrefixRead> read = reads_.front();
    lock.unlock();
    for (const BlockKey& key : read->keys)
      if (read->abandoned() || !try_read(*read, key)) break;
    read->finish();
    lock.lock();
    reads_.pop_front();
    if (writes_.empty() && reads_.empty() && !writing_) idle_.notify_all();
  }
}

void PrefixFiles::flush() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [&] { return writes_.empty() && reads_.empty() && !writing_; });
}

TierCounts PrefixFiles::counts() const {
  const std::lock_guard lock(mutex_);
  TierCounts counts = counts_;
  counts.limit_bytes = options_.max_bytes;
  return counts;
}

double PrefixFiles::seconds_per_byte() const {
  const std::lock_guard lock(mutex_);
  return seconds_per_byte_ * std::exp2(-(options_.clock() - measured_at_) / kHalfLife);
}

}  // namespace kvick::engine
