#pragma once
// The target of a request: its path, its query, and the route that it matches.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "server/request/error.h"

namespace kvick::server {

// Returns the path of a target, without query, decoded: "/v1/models/a b" for
// "http://host/v1/models/a%20b?x". Empty if there is none or a % code is malformed.
std::string path_of(std::string_view target);

// Returns the decoded value of a field of the target's query: "a b" for limit in "/x?limit=a%20b".
// Empty if the field is missing or malformed.
std::string query_of(std::string_view target, std::string_view name);

struct RouteName {
  std::string_view method;  // "GET" also answers HEAD
  std::string_view path;    // "/v1/models/{id}": braces match any text that is not empty
};

struct Match {
  size_t route = 0;      // index in the list of routes
  std::string argument;  // the text that matched the braces
};

// Finds the route of a path. Errors: 404, or 405 with the methods that the path has.
ApiResult<Match> match(std::span<const RouteName> routes, std::string_view method,
                       std::string_view path);

}  // namespace kvick::server
