#include "io/packed/packed_key.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "io/file/split_name.h"

namespace kvick::io {
namespace {

namespace fs = std::filesystem;

constexpr size_t kEnd = 64;  // bytes at each end of a tensor

class Hash {
 public:
  Hash() : state_(XXH3_createState()) {
    if (state_ == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(state_.get());
  }
  void add(std::span<const std::byte> bytes) {
    XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
  }
  void add(uint64_t number) { add(std::as_bytes(std::span(&number, 1))); }
  void add(std::string_view text) {
    add(text.size());
    add(std::as_bytes(std::span(text)));
  }
  PackedKey key() const {
    const XXH128_hash_t sum = XXH3_128bits_digest(state_.get());
    return {.high = sum.high64, .low = sum.low64};
  }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, Free> state_;
};

base::Result<std::vector<fs::path>> files_of(const fs::path& path) {
  std::error_code error;
  std::vector<fs::path> files;
  if (!fs::is_directory(path, error)) {
    for (const std::string& part : split_paths(path.string())) files.emplace_back(part);
    return files;
  }
  for (auto it = fs::directory_iterator(path, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    const std::string kind = it->path().extension().string();
    if (kind == ".json" || kind == ".safetensors") files.push_back(it->path());
  }
  if (error) return base::fail("cannot read {}: {}", path.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

base::Status<> add_files(const std::string& path, Hash& hash) {
  KVICK_TRY(const std::vector<fs::path> files, files_of(path));
  for (const fs::path& file : files) {
    struct stat info {};
    if (stat(file.c_str(), &info) != 0)
      return base::fail("cannot look up {}: {}", file.string(), std::strerror(errno));
    hash.add(static_cast<uint64_t>(info.st_dev));
    hash.add(static_cast<uint64_t>(info.st_ino));
    hash.add(static_cast<uint64_t>(info.st_size));
    hash.add(static_cast<uint64_t>(info.st_mtim.tv_sec));
    hash.add(static_cast<uint64_t>(info.st_mtim.tv_nsec));
  }
  return base::Done{};
}

void add_samples(const ModelFile& file, Hash& hash) {
  for (const Tensor& tensor : file.tensors()) {
    hash.add(tensor.name);
    hash.add(static_cast<uint64_t>(tensor.dtype));
    hash.add(std::as_bytes(std::span(tensor.shape)));
    const auto parts = tensor.source == nullptr ? std::vector{tensor.data} : tensor.source->parts();
    for (const std::span<const std::byte> part : parts) {
      const size_t n = std::min(kEnd, part.size());
      hash.add(part.first(n));
      hash.add(part.last(n));
    }
  }
}

}  // namespace

base::Result<PackedKey> packed_key(const ModelFile& file, uint32_t layout,
                                   std::span<const PackedMatrix> matrices) {
  Hash hash;
  hash.add(layout);
  hash.add(std::string_view(KVICK_VERSION));
  KVICK_TRY_VOID(add_files(file.path(), hash));
  add_samples(file, hash);
  for (const PackedMatrix& matrix : matrices) {
    hash.add(matrix.name);
    hash.add(matrix.bytes);
  }
  return hash.key();
}

}  // namespace kvick::io
