#include "cli/models/fetch.h"

#include <cstdlib>

#include "cli/models/models.h"
#include "cli/models/reference.h"

namespace kvick::cli {
namespace {

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

}  // namespace

PullRequest pull_request(std::string_view reference, const std::filesystem::path& cache) {
  return {.reference = std::string(reference),
          .cache = cache,
          .hub = environment("HF_ENDPOINT", "https://huggingface.co"),
          .hub_token = environment("HF_TOKEN", ""),
          .sha256 = {},
          .force = false,
          .download = {}};
}

base::Result<std::filesystem::path> find_or_fetch_model(std::string_view name, Progress& progress) {
  auto found = find_model(name);
  if (found.ok() || !(name.empty() || can_be_fetched(name))) return found;
  KVICK_TRY(const std::filesystem::path cache, models_dir());
  const std::string_view wanted = name.empty() ? kDefaultModel : name;
  progress.note(fmt::format("kvick: fetching {} into {}", wanted, cache.string()));
  KVICK_TRY(const PullResult pulled, pull(pull_request(wanted, cache), progress));
  return pulled.path;
}

}  // namespace kvick::cli
