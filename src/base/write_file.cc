#include "base/write_file.h"

#include <fstream>
#include <unistd.h>

namespace kvick::base {

namespace fs = std::filesystem;

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
