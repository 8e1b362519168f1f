#pragma once
// Files of numbers and strings in sequence, such as checkpoints and token files. Little endian;
// strings and lists follow a 64-bit count.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kvick::train {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Writes a file that appears complete, at finish(), or not at all. Throws Mistake if the file
// cannot be created, and std::system_error if writing fails.
class BinaryWriter {
 public:
  explicit BinaryWriter(std::string path);
  ~BinaryWriter();
  BinaryWriter(const BinaryWriter&) = delete;
  BinaryWriter& operator=(const BinaryWriter&) = delete;

  void raw(const void* bytes, size_t count);
  template <typename Number>
  void number(Number value) {
    raw(&value, sizeof value);
  }
  void string(std::string_view value) {
    number<uint64_t>(value.size());
    raw(value.data(), value.size());
  }
  template <typename Number>
  void list(const std::vector<Number>& values) {
    number<uint64_t>(values.size());
    raw(values.data(), values.size() * sizeof(Number));
  }
  void pad_to(uint64_t multiple);
  void finish();  // flushes to disk, then renames the file to its path

 private:
  std::string path_, part_;
  File file_;
  uint64_t bytes_ = 0;
};

// Reads such a file. Throws Mistake if it is missing, does not begin with `magic`, or ends early.
class BinaryReader {
 public:
  BinaryReader(const std::string& path, std::string_view magic, const char* what);

  template <typename Number>
  Number number() {
    Number value;
    raw(&value, sizeof value);
    return value;
  }
  std::string string();
  template <typename Number>
  std::vector<Number> list() {
    std::vector<Number> values(items(sizeof(Number)));
    raw(values.data(), values.size() * sizeof(Number));
    return values;
  }
  void end() const;  // throws Mistake if bytes are left

 private:
  void raw(void* bytes, size_t count);
  size_t items(size_t bytes_each);  // reads a list's count, checked against the bytes left

  std::string path_;
  File file_;
  uint64_t left_ = 0;
};

// Writes a small text file in the same way.
void write_text(const std::string& path, std::string_view text);

}  // namespace kvick::train
