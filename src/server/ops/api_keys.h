#pragma once
// Who may use the server.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvick::server {

class ApiKeys {
 public:
  // No keys: everyone may.
  explicit ApiKeys(std::vector<std::string> keys = {}) : keys_(std::move(keys)) {}
  // authorization: the header's value, "Bearer KEY". How long the answer takes tells nothing of how
  // much of a key was right.
  bool admit(std::string_view authorization) const {
    return keys_.empty() || owner(authorization) > 0;
  }
  // Which client it is: 1 for the first key, 0 for none of them, or where there are no keys.
  size_t owner(std::string_view authorization) const;

 private:
  std::vector<std::string> keys_;
};

// One key a line; empty lines and those that begin with # do not count. Errors: the file cannot be
// read, has no key, or one with white space in it.
base::Result<ApiKeys> read_api_keys(const std::string& path);

}  // namespace kvick::server
