// kvick pull REF: its options, and what it prints.

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/models.h"
#include "cli/pull.h"

namespace kvick::cli {
namespace {

struct PullCommand {
  const Common& common;
  std::string reference, sha256;
  bool force = false;
  DownloadOptions download;

  int run() const;
};

std::string environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value && *value ? value : otherwise;
}

int refuse(const base::Error& error) {
  std::cerr << "kvick: " << error.message << std::endl;
  return 2;
}

int PullCommand::run() const {
  const auto cache = models_dir();
  if (!cache.ok()) return refuse(cache.error());
  Progress progress = stderr_progress(common.quiet);
  const auto result = pull({.reference = reference,
                            .cache = *cache,
                            .hub = environment("HF_ENDPOINT", "https://huggingface.co"),
                            .hub_token = environment("HF_TOKEN", ""),
                            .sha256 = sha256,
                            .force = force,
                            .download = download},
                           progress);
  if (!result.ok()) return refuse(result.error());
  if (common.json) {
    const nlohmann::json json = {{"path", result->path.string()},
                                 {"bytes", result->bytes},
                                 {"sha256", result->sha256},
                                 {"resumed_bytes", result->resumed_bytes},
                                 {"already_there", result->already_there}};
    std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
  } else {
    std::cout << result->path.string() << std::endl;
  }
  return 0;
}

}  // namespace

void add_pull(CLI::App& app, const Common& common, Run& chosen) {
  auto command = std::make_shared<PullCommand>(PullCommand{common});
  CLI::App* sub = app.add_subcommand("pull", "fetch a model into the cache and print its path");
  sub->add_option("reference", command->reference,
                  "a known name (smollm2), hf:owner/repo/file.gguf[@revision] or a URL")
      ->required();
  sub->add_option("--sha256", command->sha256, "refuse the file if its SHA-256 is another one");
  sub->add_flag("--force", command->force, "fetch it even if it is there");
  sub->add_option("--retries", command->download.retries,
                  "attempts without progress before giving up")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  sub->add_option("--retry-wait", command->download.retry_wait_s,
                  "seconds before the first of them; doubles each time")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  sub->add_option("--timeout", command->download.timeout_s,
                  "seconds without a byte before an attempt counts as failed")
      ->check(CLI::Range(1, 86400))
      ->capture_default_str();
  sub->callback([command, &chosen] { chosen = [command] { return command->run(); }; });
}

}  // namespace kvick::cli
