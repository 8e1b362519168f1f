#include "cli/models/hub_files.h"

#include <nlohmann/json.hpp>

#include "cli/models/download.h"
#include "cli/transfer/failure.h"
#include "cli/transfer/part_file.h"

namespace kvick::cli {
namespace {

// The list of a repository with many types takes about 100 KB.
constexpr size_t kMostListBytes = 16 << 20;

// Returns the URL of the repository's list of files.
base::Result<Url> list_url(const HubName& name, std::string_view hub) {
  KVICK_TRY(const std::string folder, hub_folder(name));
  while (hub.ends_with('/')) hub.remove_suffix(1);
  // The folder is hf/owner/repo[@revision], percent-encoded as in a URL.
  std::string_view rest = std::string_view(folder).substr(3);
  const size_t at = rest.find('@');
  const std::string_view revision = at == rest.npos ? "main" : rest.substr(at + 1);
  auto url =
      parse_url(fmt::format("{}/api/models/{}/revision/{}", hub, rest.substr(0, at), revision));
  if (!url.ok()) return base::fail("HF_ENDPOINT is '{}': {}", hub, url.error().message);
  return url;
}

}  // namespace

std::vector<std::string> parse_hub_files(std::string_view json, std::string_view from) {
  const auto list = nlohmann::json::parse(json, nullptr, false);
  const auto siblings = list.is_object() ? list.find("siblings") : list.end();
  if (!list.is_object() || siblings == list.end() || !siblings->is_array())
    throw failure("{}: the hub's answer is no list of files", from);
  std::vector<std::string> files;
  for (const auto& entry : *siblings) {
    const auto path = entry.is_object() ? entry.find("rfilename") : entry.end();
    if (!entry.is_object() || path == entry.end() || !path->is_string()) continue;
    files.push_back(path->get<std::string>());
  }
  return files;
}

base::Result<std::vector<std::string>> list_hub_files(const PullRequest& request,
                                                      const HubName& name, Progress& progress) {
  KVICK_TRY(const Url url, list_url(name, request.hub));
  PartFile part = PartFile::open(request.cache / "hub-files.json", [] {});
  part.clear();
  KVICK_TRY_VOID(download({.url = url,
                           .hub = true,
                           .bearer = request.hub_token,
                           .sha256 = {},
                           .options = request.download},
                          part, progress));
  const std::string json = part.head(kMostListBytes);
  const bool whole = part.size() <= kMostListBytes;
  part.clear();  // else the destructor would keep it, to be continued
  if (!whole)
    throw failure("{}: the hub's list of files has more than {} bytes", url.shown, kMostListBytes);
  return parse_hub_files(json, url.shown);
}

}  // namespace kvick::cli
