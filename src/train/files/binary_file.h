#pragma once
// Files of numbers and strings one after the other, as checkpoints and token files are: little
// endian, strings and lists behind a 64-bit count.

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

// A file that appears whole, at finish(), or not at all. Throws Mistake where it cannot be written
// and std::system_error when writing fails.
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
  void finish();  // to the disk, then under its name

 private:
  std::string path_, part_;
  File file_;
  uint64_t bytes_ = 0;
};

// Throws Mistake for a file that is missing, begins with other bytes than `magic`, or ends early.
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
  void end() const;  // nothing may be left

 private:
  void raw(void* bytes, size_t count);
  size_t items(size_t bytes_each);  // the count before a list, checked against what is left

  std::string path_;
  File file_;
  uint64_t left_ = 0;
};

// A whole small file of text, likewise.
void write_text(const std::string& path, std::string_view text);

}  // namespace kvick::train
