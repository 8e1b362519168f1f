// kvick pull REF: its options and its output.

#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/models/fetch.h"
#include "cli/models/models.h"
#include "cli/models/named_models.h"
#include "cli/models/pull.h"
#include "cli/models/reference.h"
#include "cli/options/print_json.h"

namespace kvick::cli {
namespace {

struct PullCommand {
  const Common& common;
  std::string reference, sha256;
  bool force = false;
  DownloadOptions download;

  base::Result<int> run() const;
};

// Prints the models that can be pulled by a short name.
int list_names(const std::filesystem::path& cache, bool as_json) {
  nlohmann::ordered_json models = nlohmann::ordered_json::array();
  const auto add = [&](std::string_view name, std::string_view type, uint64_t bytes,
                       std::string_view licence, std::string_view from) {
    models.push_back({{"name", name},
                      {"type", type},
                      {"bytes", bytes},
                      {"licence", licence},
                      {"from", from},
                      {"fetched", resolve_model(name, cache).ok()}});
  };
  for (const KnownModel& m : known_models())
    add(m.name, m.type, m.member_bytes, "Apache-2.0", "the package " + std::string(m.package));
  for (const NamedModel& m : named_models()) add(m.name, m.type, m.bytes, m.licence, m.reference);
  if (as_json) {
    print_json(models);
    return 0;
  }
  fmt::print("{:<14} {:<7} {:>8}  {:<10}  {}\n", "model", "type", "size", "licence", "from");
  for (const auto& m : models)
    fmt::print("{:<14} {:<7} {:>8}  {:<10}  {}{}\n", m["name"].get<std::string_view>(),
               m["type"].get<std::string_view>(),
               amount_text(m["bytes"].get<double>(), Unit::kBytes),
               m["licence"].get<std::string_view>(), m["from"].get<std::string_view>(),
               m["fetched"].get<bool>() ? " (fetched)" : "");
  fmt::print(
      "kvick pull MODEL fetches one; hf:owner/repo:Q4_K_M, hf:owner/repo/file.gguf and URLs work "
      "as well\n");
  return 0;
}

base::Result<int> PullCommand::run() const {
  KVICK_TRY(const std::filesystem::path cache, models_dir());
  if (reference.empty() && (force || !sha256.empty()))
    return base::fail("{} is for a model that is fetched: name it, as in kvick pull smollm2 {}",
                      force ? "--force" : "--sha256", force ? "--force" : "--sha256 ...");
  if (reference.empty()) return list_names(cache, common.json);
  Progress progress = stderr_progress(common.quiet);
  PullRequest request = pull_request(reference, cache);
  request.sha256 = sha256;
  request.force = force;
  request.download = download;
  KVICK_TRY(const PullResult result, pull(request, progress));
  if (common.json) {
    const nlohmann::json json = {{"path", result.path.string()},
                                 {"bytes", result.bytes},
                                 {"sha256", result.sha256},
                                 {"resumed_bytes", result.resumed_bytes},
                                 {"already_there", result.already_there}};
    std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  } else {
    std::cout << result.path.string() << std::endl;
  }
  return 0;
}

}  // namespace

void add_pull(const Command& app, const Common& common) {
  auto command = std::make_shared<PullCommand>(PullCommand{common});
  const Command sub = app.add_command("pull", "fetch a model into the cache and print its path");
  sub.add_option("reference", command->reference,
                 "a short name, hf:owner/repo[:Q4_K_M], hf:owner/repo/file.gguf[@revision] or a "
                 "URL; without one the short names are listed");
  sub.add_option("--sha256", command->sha256, "refuse the file if its SHA-256 is another one");
  sub.add_flag("--force", command->force, "fetch it even if it is there");
  sub.add_option("--retries", command->download.retries,
                 "attempts without progress before giving up")
      .in_range(0, 1000)
      .shows_default();
  sub.add_option("--retry-wait", command->download.retry_wait_s,
                 "seconds before the first retry; the wait doubles each time")
      .in_range(0.0, 3600.0)
      .shows_default();
  sub.add_option("--timeout", command->download.timeout_s,
                 "seconds without a byte before an attempt counts as failed")
      .in_range(1, 86400)
      .shows_default();
  sub.runs([command] { return command->run(); });
}

}  // namespace kvick::cli
