#include "cli/models/model_use.h"

#include <fstream>
#include <sys/stat.h>

#include "cli/models/removal.h"

namespace kvick::cli {

namespace fs = std::filesystem;

fs::path use_mark(const fs::path& model) {
  // The path of a folder may end with a slash.
  const fs::path plain = model.has_filename() ? model : model.parent_path();
  return plain.parent_path() / ("." + plain.filename().string() + ".used");
}

void mark_used(const fs::path& model, const fs::path& cache) {
  if (!is_in_cache(model, cache)) return;
  const fs::path mark = use_mark(model);
  std::ofstream(mark, std::ios::app);
  std::error_code none;
  fs::last_write_time(mark, fs::file_time_type::clock::now(), none);
}

std::optional<int64_t> last_used(const fs::path& model) {
  struct stat info {};
  if (stat(use_mark(model).c_str(), &info) != 0) return std::nullopt;
  return static_cast<int64_t>(info.st_mtim.tv_sec);
}

}  // namespace kvick::cli
