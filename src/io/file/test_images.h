#pragma once
// Small model files for tests. They follow the formats' specifications and do not use the code
// under test.

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace kvick::io {

// Return the little-endian bytes of a value, and of a text with its length before it, as in GGUF.
template <typename T>
std::string le(T value) {
  std::string out(sizeof(T), '\0');
  std::memcpy(out.data(), &value, sizeof(T));
  return out;
}
inline std::string gguf_text(std::string_view text) {
  return le<uint64_t>(text.size()) + std::string(text);
}

inline std::span<const std::byte> bytes_of(const std::string& image) {
  return std::as_bytes(std::span(image));
}

// A GGUF file. The counts in its header follow from what was added, unless a test sets them.
struct GgufImage {
  uint32_t version = 3;
  uint64_t alignment = 32;
  uint64_t keys = 0, tensors = 0;
  std::string metadata, infos, data;

  GgufImage& key(std::string_view name, uint32_t type, const std::string& payload) {
    metadata += gguf_text(name) + le(type) + payload;
    ++keys;
    return *this;
  }
  GgufImage& text(std::string_view name, std::string_view value) {
    return key(name, 8, gguf_text(value));
  }
  // Adds an array of `count` elements whose bytes are `payload`.
  GgufImage& array(std::string_view name, uint32_t type, uint64_t count,
                   const std::string& payload) {
    return key(name, 9, le(type) + le(count) + payload);
  }
  // dims: innermost first, as in the file.
  GgufImage& info(std::string_view name, std::initializer_list<uint64_t> dims, uint32_t type,
                  uint64_t offset) {
    infos += gguf_text(name) + le<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t size : dims) infos += le(size);
    infos += le(type) + le(offset);
    ++tensors;
    return *this;
  }
  GgufImage& tensor(std::string_view name, std::initializer_list<uint64_t> dims, uint32_t type,
                    const std::string& bytes) {
    pad(data);
    info(name, dims, type, data.size());
    data += bytes;
    return *this;
  }
  std::string build() const {
    std::string out = "GGUF" + le(version) + le(tensors) + le(keys) + metadata + infos;
    if (!data.empty()) pad(out);
    return out + data;
  }

 private:
  void pad(std::string& out) const {
    out.append((alignment - out.size() % alignment) % alignment, '\0');
  }
};

// Returns a safetensors file. header: its JSON, which is padded to a multiple of 8 bytes.
inline std::string safetensors_image(std::string header, const std::string& data) {
  header.append((8 - header.size() % 8) % 8, ' ');
  return le<uint64_t>(header.size()) + header + data;
}

// A temporary folder, deleted with its files by the destructor.
class TestFolder {
 public:
  TestFolder() {
    std::string pattern = testing::TempDir() + "kvick-io-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder: " + pattern);
    path_ = pattern;
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string write(std::string_view name, const std::string& bytes) const {
    const std::string file = path_ + "/" + std::string(name);
    std::ofstream(file, std::ios::binary) << bytes;
    return file;
  }

 private:
  std::string path_;
};

}  // namespace kvick::io
