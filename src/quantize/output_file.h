#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::quantize {

// A large file that appears complete or not at all. It is written as NAME.part in the same folder,
// and finish() renames it. If destroyed without finish(), it deletes the part.
class OutputFile {
 public:
  // Error: the path cannot be written, or another process is writing it.
  static base::Result<OutputFile> open(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;

  // Errors give the system's message, such as a full disk.
  base::Status<> write(std::span<const std::byte> bytes);
  base::Status<> write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  base::Status<> pad_to(uint64_t multiple);  // with zeros
  base::Status<> finish();
  uint64_t size() const { return size_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  OutputFile() = default;
  base::Error failure() const;
  std::string part_name() const { return path_ + ".part"; }

  std::unique_ptr<std::FILE, Closer> file_;
  std::string path_;
  uint64_t size_ = 0;
};

}  // namespace kvick::quantize
