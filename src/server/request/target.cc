#include "server/request/target.h"

#include <algorithm>
#include <charconv>

#include "server/request/fields.h"

namespace kvick::server {
namespace {

std::string decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return "";
    unsigned value = 0;
    const auto read = std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16);
    if (read.ec != std::errc() || read.ptr != text.data() + i + 3) return "";
    out += static_cast<char>(value);
    i += 2;
  }
  return out;
}

// Returns the text that matches the braces ("" if the route has none), or nothing if the path does
// not match the route.
std::optional<std::string> argument_of(std::string_view route, std::string_view path) {
  const size_t brace = route.find('{');
  if (brace == std::string_view::npos)
    return route == path ? std::optional<std::string>("") : std::nullopt;
  const std::string_view behind = route.substr(route.find('}') + 1);
  if (path.size() <= brace + behind.size() || !path.starts_with(route.substr(0, brace)) ||
      !path.ends_with(behind))
    return std::nullopt;
  return std::string(path.substr(brace, path.size() - brace - behind.size()));
}

bool is_there(std::span<const RouteName> routes, std::string_view path) {
  return std::any_of(routes.begin(), routes.end(), [&](const RouteName& route) {
    return argument_of(route.path, path).has_value();
  });
}

// Returns the path that a client may mean: many add theirs to a base URL that must end with /v1,
// and some to one that must not. Returns "" if there is nothing there either.
std::string meant_by(std::span<const RouteName> routes, std::string_view path) {
  const std::string other =
      path.starts_with("/v1/v1/") ? std::string(path.substr(3)) : fmt::format("/v1{}", path);
  return is_there(routes, other) ? other : "";
}

// Returns the path without the second of two slashes and without one at the end.
std::string without_extra_slashes(std::string_view path) {
  std::string out;
  for (const char c : path)
    if (c != '/' || !out.ends_with('/')) out += c;
  if (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return out;
}

std::string nothing_at(std::span<const RouteName> routes, std::string_view path) {
  const std::string single = without_extra_slashes(path);
  if (single != path && is_there(routes, single))
    return fmt::format(
        "there is nothing at {}, but at {}; take the extra slash out of the client's URL",
        in_quotes(path), in_quotes(single));
  const std::string meant = meant_by(routes, path);
  if (meant.empty())
    return fmt::format("there is nothing at {}; GET /openapi.json lists what there is",
                       in_quotes(path));
  return fmt::format("there is nothing at {}, but at {}; {} the client's base URL", in_quotes(path),
                     in_quotes(meant),
                     meant.size() > path.size() ? "add /v1 to" : "leave /v1 out of");
}

}  // namespace

std::string path_of(std::string_view target) {
  if (const size_t scheme = target.find("://");
      scheme != std::string_view::npos && scheme < target.find('/')) {
    const size_t path = target.find('/', scheme + 3);
    target = path == std::string_view::npos ? "/" : target.substr(path);
  }
  target = target.substr(0, target.find_first_of("?#"));
  return target.starts_with('/') ? decoded(target) : "";
}

std::string query_of(std::string_view target, std::string_view name) {
  target = target.substr(0, target.find('#'));
  size_t at = target.find('?');
  while (at < target.size()) {
    const size_t end = std::min(target.find('&', at + 1), target.size());
    const std::string_view field = target.substr(at + 1, end - at - 1);
    if (field.starts_with(name) && field.substr(name.size()).starts_with('='))
      return decoded(field.substr(name.size() + 1));
    at = end;
  }
  return "";
}

ApiResult<Match> match(std::span<const RouteName> routes, std::string_view method,
                       std::string_view path) {
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  std::string allowed;
  for (size_t i = 0; i < routes.size(); ++i) {
    const auto argument = argument_of(routes[i].path, path);
    if (!argument) continue;
    if (routes[i].method == wanted) return Match{.route = i, .argument = *argument};
    allowed += (allowed.empty() ? "" : ", ") + std::string(routes[i].method);
    if (routes[i].method == "GET") allowed += ", HEAD";
  }
  if (allowed.empty())
    return ApiError{.status = 404, .message = nothing_at(routes, path), .code = "not_found"};
  return ApiError{.status = 405,
                  .message = fmt::format("{} does not take {}, but {}", in_quotes(path),
                                         in_quotes(method), allowed),
                  .code = "method_not_allowed",
                  .headers = {{"Allow", allowed}}};
}

}  // namespace kvick::server
