#include "base/text_file.h"

#include <fstream>
#include <iterator>
#include <unistd.h>

namespace kvick::base {

namespace fs = std::filesystem;

Result<std::string> read_text(const std::string& path) {
  std::error_code none;
  // An ifstream opens a folder without error, but reading from it throws.
  if (fs::is_directory(path, none)) return fail("cannot read {}: it is a folder", path);
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail("cannot read {}", path);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Status<> write_file(const fs::path& path, std::string_view text) {
  const fs::path part = path.string() + fmt::format(".{}.part", getpid());
  std::ofstream out(part, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (out) fs::rename(part, path, error);
  if (out && !error) return Done{};
  std::error_code none;
  fs::remove(part, none);
  return fail("cannot write {}{}{}", path.string(), error ? ": " : "",
              error ? error.message() : "");
}

}  // namespace kvick::base
