#pragma once
// The keys that admit clients to the server.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::server {

class ApiKeys {
 public:
  // Without keys everyone is admitted.
  explicit ApiKeys(std::vector<std::string> keys = {}) : keys_(std::move(keys)) {}
  // Returns whether a client is admitted. authorization: the header's value, "Bearer KEY". The time
  // taken reveals nothing about how much of a wrong key was right.
  bool admit(std::string_view authorization) const {
    return keys_.empty() || owner(authorization) > 0;
  }
  // Returns the number of the client: 1 for the first key; 0 if no key matches or there are no
  // keys.
  size_t owner(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

// Reads a file with one key per line; empty lines and lines that begin with # are skipped. Errors:
// the file cannot be read, has no key, or has a key with white space in it.
base::Result<ApiKeys> read_api_keys(const std::string& path);

}  // namespace kvick::server
