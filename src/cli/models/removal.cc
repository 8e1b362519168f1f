#include "cli/models/removal.h"

#include <algorithm>
#include <string>

#include "cli/models/model_use.h"
#include "cli/models/models.h"
#include "io/file/split_name.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

fs::path plain_path(const fs::path& path) {
  const fs::path whole = fs::absolute(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace

bool is_in_cache(const fs::path& path, const fs::path& cache) {
  const fs::path inner = plain_path(path).lexically_relative(plain_path(cache));
  return !inner.empty() && inner != "." && *inner.begin() != "..";
}

base::Result<Removal> plan_removal(std::string_view name, const fs::path& cache) {
  if (name.empty()) return base::fail("the name of the model is empty: kvick list shows names");
  // A name that kvick list shows means the model in the cache, even if a file of that name exists
  // elsewhere.
  const std::vector<std::string> listed = cached_models(cache);
  const auto cached = resolve_cached(name, cache);
  const bool first = cached.ok() || std::find(listed.begin(), listed.end(), name) != listed.end();
  KVICK_TRY(const fs::path found, first ? cached : resolve_model(name, cache));
  Removal removal{.model = plain_path(found), .files = {}};
  if (!is_in_cache(removal.model, cache))
    return base::fail("{} is not in the model cache {}: delete it yourself", found.string(),
                      cache.string());
  std::error_code none;
  if (fs::is_directory(removal.model, none) && !fs::exists(removal.model / "config.json", none))
    return base::fail("{} is a folder and not a model", removal.model.string());
  if (fs::is_directory(removal.model, none)) {
    for (auto it = fs::recursive_directory_iterator(removal.model, none);
         !none && it != fs::end(it); it.increment(none))
      if (!it->is_directory(none)) removal.files.push_back(it->path());
  } else {
    for (const std::string& part : io::split_paths(removal.model.string()))
      if (fs::exists(part, none)) removal.files.emplace_back(part);
  }
  for (const fs::path& file : removal.files) {
    const uintmax_t bytes = fs::file_size(file, none);
    if (!none) removal.bytes += bytes;
  }
  return removal;
}

base::Status<> remove_model(const Removal& removal, const fs::path& cache) {
  std::error_code error;
  for (const fs::path& file : removal.files)
    if (!fs::remove(file, error) && error)
      return base::fail("cannot delete {}: {}", file.string(), error.message());
  std::error_code none;
  fs::remove(use_mark(removal.model), none);
  if (fs::is_directory(removal.model, none)) fs::remove_all(removal.model, none);
  // remove() fails for folders that are not empty, which ends the loop.
  for (fs::path folder = removal.model.parent_path(); is_in_cache(folder, cache);
       folder = folder.parent_path())
    if (!fs::remove(folder, none)) break;
  return base::Done{};
}

}  // namespace kvick::cli
