#include "server/ops/api_keys.h"

#include <fstream>
#include <strings.h>

namespace kvick::server {
namespace {

// Compares every byte of the key, so that the time does not depend on where the texts differ.
bool same(std::string_view key, std::string_view given) {
  size_t difference = key.size() ^ given.size();
  for (size_t i = 0; i < key.size(); ++i) {
    const char other = i < given.size() ? given[i] : '\0';
    difference |= static_cast<unsigned char>(key[i] ^ other);
  }
  return difference == 0;
}

}  // namespace

size_t ApiKeys::owner(std::string_view authorization) const {
  constexpr std::string_view kScheme = "Bearer ";
  if (authorization.size() < kScheme.size() ||
      strncasecmp(authorization.data(), kScheme.data(), kScheme.size()) != 0)
    return 0;
  authorization.remove_prefix(kScheme.size());
  size_t owner = 0;
  for (size_t i = 0; i < keys_.size(); ++i)
    if (same(keys_[i], authorization)) owner = i + 1;
  return owner;
}

base::Result<ApiKeys> read_api_keys(const std::string& path) {
  std::ifstream in(path);
  if (!in) return base::fail("cannot read the API keys in {}", path);
  std::vector<std::string> keys;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty() || line.starts_with('#')) continue;
    if (line.find_first_of(" \t") != std::string::npos)
      return base::fail("{}: a key has white space in it; write one key a line", path);
    keys.push_back(line);
  }
  if (in.bad()) return base::fail("cannot read the API keys in {}", path);
  if (keys.empty()) return base::fail("{} has no key; write one a line", path);
  return ApiKeys(std::move(keys));
}

}  // namespace kvick::server
