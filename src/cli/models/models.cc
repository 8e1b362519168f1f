#include "cli/models/models.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

#include "cli/models/named_models.h"
#include "cli/models/reference.h"
#include "cli/terminal/help_text.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

// Files of models and folders that hold one, relative to the cache. Names with a leading dot are
// pulls under way.
std::vector<fs::path> cache_entries(const fs::path& cache) {
  std::vector<fs::path> out;
  std::error_code none;
  for (auto it = fs::recursive_directory_iterator(cache, none); !none && it != fs::end(it);
       it.increment(none)) {
    const bool hidden = it->path().filename().string().starts_with('.');
    const bool folder = it->is_directory(none);
    const bool model_folder = folder && fs::exists(it->path() / "config.json", none);
    if (folder && (hidden || model_folder)) it.disable_recursion_pending();
    if (!hidden && (model_folder || (!folder && it->is_regular_file(none))))
      out.push_back(it->path().lexically_relative(cache));
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string percent_decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* digits = text.data() + i + 1;
    const bool encoded = text[i] == '%' && text.size() - i > 2 &&
                         std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    out += encoded ? static_cast<char>(value) : text[i];
    if (encoded) i += 2;
  }
  return out;
}

// The inverse of Reference::cache_path for names that a person would type.
std::string entry_name(const fs::path& entry) {
  for (const KnownModel& model : known_models())
    if (entry == model.file) return std::string(model.name);
  std::string text = percent_decoded(entry.string());
  if (!text.starts_with("hf/")) return entry.filename().string();
  text.replace(0, 3, "hf:");
  const size_t at = text.find('@');
  if (at == std::string::npos) return text;
  // hf/owner/repo@revision/file: the revision goes behind the file, where it may hold slashes.
  const std::string folder = std::next(entry.begin(), 2)->string();
  const std::string revision = percent_decoded(folder.substr(folder.find('@')));
  return text.erase(at, revision.size()) + revision;
}

std::string what_there_is(const fs::path& cache) {
  const auto names = cached_models(cache);
  if (names.empty()) return fmt::format("the model cache {} is empty", cache.string());
  return fmt::format("the model cache {} has: {}", cache.string(), fmt::join(names, ", "));
}

base::Result<fs::path> by_file_name(std::string_view name, const fs::path& cache) {
  std::vector<fs::path> found;
  for (const fs::path& entry : cache_entries(cache))
    if (entry.filename() == name || (entry.extension() == ".gguf" && entry.stem() == name))
      found.push_back(entry);
  if (found.size() == 1) return cache / found[0];
  if (found.size() > 1)
    return base::fail("'{}' is the name of {} models in {}; give one of their paths, such as {}",
                      name, found.size(), cache.string(), (cache / found[0]).string());
  const bool path_like = name.find('/') != name.npos;
  std::vector<std::string> names = cached_models(cache);
  for (const KnownModel& model : known_models()) names.emplace_back(model.name);
  for (const NamedModel& model : named_models()) names.emplace_back(model.name);
  const std::string_view meant = nearest(name, names);
  if (!meant.empty())
    return base::fail("there is no model '{}'; did you mean {}? (kvick list shows what there is)",
                      name, meant);
  return base::fail(
      "there is no {} '{}', and {}; `kvick pull` gets models: a name that it lists, "
      "hf:owner/repo/file.gguf or a URL",
      path_like ? "file" : "file or model", name, what_there_is(cache));
}

}  // namespace

base::Result<fs::path> models_dir() {
  // The XDG base directory specification: a relative path is to be ignored.
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg && fs::path(xdg).is_absolute())
    return fs::path(xdg) / "kvick" / "models";
  const char* home = std::getenv("HOME");
  if (!home || !*home)
    return base::fail(
        "cannot tell where the model cache is: set HOME, or XDG_CACHE_HOME to an absolute path");
  return fs::path(home) / ".cache" / "kvick" / "models";
}

base::Result<fs::path> packed_dir() {
  KVICK_TRY(const fs::path models, models_dir());
  return models.parent_path() / "packed";
}

base::Result<fs::path> resolve_model(std::string_view name, const fs::path& cache) {
  std::error_code none;
  if (!name.empty() && fs::exists(name, none)) return fs::path(name);
  if (name.empty()) name = kDefaultModel;
  const bool pullable = find_known_model(name) || find_named_model(name) ||
                        name.starts_with("hf:") || name.find("://") != name.npos;
  if (!pullable) return by_file_name(name, cache);
  // Where the hub is does not matter for the place in the cache.
  KVICK_TRY(Reference reference, parse_reference(name, "https://huggingface.co"));
  fs::path path = cache / reference.cache_path;
  if (fs::exists(path, none)) return path;
  return base::fail("the model {} has not been fetched yet: run `kvick pull {}` ({})", name, name,
                    what_there_is(cache));
}

base::Result<fs::path> find_model(std::string_view name) {
  std::error_code none;
  if (!name.empty() && fs::exists(name, none)) return fs::path(name);
  KVICK_TRY(const fs::path cache, models_dir());
  return resolve_model(name, cache);
}

bool names_model(std::string_view name) {
  std::error_code none;
  if (find_known_model(name) != nullptr || find_named_model(name) != nullptr) return true;
  if (name.empty()) return false;
  if (name.ends_with(".gguf") && fs::exists(name, none)) return true;
  const auto cache = models_dir();
  return cache.ok() && resolve_model(name, *cache).ok() && !fs::exists(name, none);
}

std::vector<std::string> cached_models(const fs::path& cache) {
  std::vector<std::string> names;
  for (const fs::path& entry : cache_entries(cache)) names.push_back(entry_name(entry));
  return names;
}

}  // namespace kvick::cli
