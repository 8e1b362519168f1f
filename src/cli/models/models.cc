#include "cli/models/models.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iterator>

#include "cli/models/hub_name.h"
#include "cli/models/named_models.h"
#include "cli/models/reference.h"
#include "cli/terminal/help_text.h"
#include "io/file/split_name.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

// Returns the model files and model folders of the cache, relative to it. A split file is listed by
// its first part. Names with a leading dot are unfinished pulls, or record when a model was used.
std::vector<fs::path> cache_entries(const fs::path& cache) {
  std::vector<fs::path> out;
  std::error_code none;
  for (auto it = fs::recursive_directory_iterator(cache, none); !none && it != fs::end(it);
       it.increment(none)) {
    const bool hidden = it->path().filename().string().starts_with('.');
    const bool folder = it->is_directory(none);
    const bool model_folder = folder && fs::exists(it->path() / "config.json", none);
    if (folder && (hidden || model_folder)) it.disable_recursion_pending();
    const auto split = io::parse_split_name(it->path().filename().string());
    const bool later_part = split && split->part > 1;
    // A single file of a model folder that is still being fetched.
    const bool alone =
        it->path().extension() == ".json" || it->path().extension() == ".safetensors";
    if (!hidden && !later_part && !alone &&
        (model_folder || (!folder && it->is_regular_file(none))))
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

// Returns the name that a person would type; the inverse of Reference::cache_path.
std::string entry_name(const fs::path& entry) {
  for (const KnownModel& model : known_models())
    if (entry == model.file) return std::string(model.name);
  std::string text = percent_decoded(entry.string());
  if (!text.starts_with("hf/")) return entry.filename().string();
  text.replace(0, 3, "hf:");
  const size_t at = text.find('@');
  if (at == std::string::npos) return text;
  // In hf/owner/repo@revision/file the revision moves to the end, where it may contain slashes.
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
    return base::fail(
        "there is no model '{}'; did you mean {}? (kvick list shows what is there, kvick pull what "
        "can be fetched)",
        name, meant);
  return base::fail(
      "there is no {} '{}', and {}; `kvick pull` gets models: a name that it lists, "
      "hf:owner/repo:TYPE, hf:owner/repo/file.gguf or a URL",
      path_like ? "file" : "file or model", name, what_there_is(cache));
}

// Applies choose_hub_files to the files of the repository that are in the cache.
base::Result<fs::path> by_hub_name(const HubName& name, std::string_view text,
                                   const fs::path& cache) {
  KVICK_TRY(const std::string folder, hub_folder(name));
  std::vector<std::string> files;
  std::error_code none;
  for (auto it = fs::recursive_directory_iterator(cache / folder, none); !none && it != fs::end(it);
       it.increment(none))
    if (it->is_regular_file(none))
      files.push_back(it->path().lexically_relative(cache / folder).string());
  const auto choice = choose_hub_files(files, name);
  if (choice.ok()) return cache / folder / (choice->folder ? "" : choice->files.front());
  return base::fail("the model {0} has not been fetched yet: run `kvick pull {0}` ({1})", text,
                    what_there_is(cache));
}

}  // namespace

base::Result<fs::path> models_dir() {
  // The XDG base directory specification requires that a relative path is ignored.
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
  return resolve_cached(name, cache);
}

base::Result<fs::path> resolve_cached(std::string_view name, const fs::path& cache) {
  std::error_code none;
  if (name.empty()) name = kDefaultModel;
  if (const auto hub = parse_hub_name(name)) return by_hub_name(*hub, name, cache);
  if (!can_be_fetched(name)) return by_file_name(name, cache);
  // The path in the cache does not depend on the hub's address.
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

bool can_be_fetched(std::string_view name) {
  return find_known_model(name) != nullptr || find_named_model(name) != nullptr ||
         name.starts_with("hf:") || name.find("://") != name.npos;
}

bool names_model(std::string_view name) {
  if (name.empty() || name.find_first_of(" \t\n") != name.npos) return false;
  if (can_be_fetched(name) || name.ends_with(".gguf")) return true;
  std::error_code none;
  if (fs::exists(fs::path(name) / "config.json", none)) return true;
  if (name.find('/') != name.npos && fs::is_regular_file(name, none)) return true;
  const auto cache = models_dir();
  return cache.ok() && resolve_model(name, *cache).ok() && !fs::exists(name, none);
}

std::string likely_model(std::string_view word) {
  std::vector<std::string> names;
  for (const KnownModel& model : known_models()) names.emplace_back(model.name);
  for (const NamedModel& model : named_models()) names.emplace_back(model.name);
  if (const auto cache = models_dir(); cache.ok())
    for (const std::string& name : cached_models(*cache)) names.push_back(name);
  return std::string(nearest(word, names));
}

std::vector<std::string> cached_models(const fs::path& cache) {
  std::vector<std::string> names;
  for (const fs::path& entry : cache_entries(cache)) names.push_back(entry_name(entry));
  return names;
}

}  // namespace kvick::cli
