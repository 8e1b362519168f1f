#include "server/net/sites.h"

#include <algorithm>
#include <arpa/inet.h>

#include "server/request/fields.h"

namespace kvick::server {
namespace {

constexpr std::string_view kScheme = "://";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return out;
}

bool contains(const std::vector<std::string>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Removes port, brackets and a final dot: "::1" for "[::1]:80".
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) return host.substr(1, std::min(host.find(']'), host.size()) - 1);
  host = host.substr(0, host.rfind(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

bool is_loopback(const std::string& name) {
  in_addr v4 = {};
  in6_addr v6 = {};
  if (inet_pton(AF_INET, name.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
  if (inet_pton(AF_INET6, name.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return name == "localhost";
}

// Returns whether a page of this origin came from the server that it addresses. The schemes may
// differ, because TLS may end at a proxy.
bool same_host(std::string_view origin, std::string_view host) {
  const bool tls = origin.starts_with("https://");
  if (host.empty() || (!tls && !origin.starts_with("http://"))) return false;
  origin.remove_prefix(origin.find(kScheme) + kScheme.size());
  const std::string_view port = tls ? ":443" : ":80";  // browsers omit the default port
  for (std::string_view* one : {&origin, &host})
    if (one->ends_with(port)) one->remove_suffix(port.size());
  return origin == host;
}

// Returns whether a header's value is safe to echo: only names of headers or methods.
bool is_list_of_names(std::string_view text) {
  return !text.empty() && text.size() <= 1024 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ',' || c == ' ';
  });
}

}  // namespace

base::Status<> check(const SiteOptions& options) {
  for (const std::string& host : options.hosts)
    if (host.empty() || host.find_first_of("/*?#@ ") != std::string::npos ||
        (!host.starts_with('[') && host.find(':') != std::string::npos))
      return base::fail("--allow-host {}: give a name without scheme and port, as llm.example.org",
                        in_quotes(host));
  for (const std::string& origin : options.origins) {
    if (origin == "*" || origin == "null") continue;
    const size_t scheme = origin.find(kScheme);
    const bool whole = scheme != std::string::npos && scheme > 0 &&
                       scheme + kScheme.size() < origin.size() &&
                       origin.find_first_of("/*?#@ ", scheme + kScheme.size()) == std::string::npos;
    if (!whole)
      return base::fail(
          "--allow-origin {}: give scheme, name and port as browsers do, without a path, as "
          "https://chat.example.org or http://localhost:3000; or * for all",
          in_quotes(origin));
  }
  return base::Done{};
}

Sites::Sites(SiteOptions options, std::string_view bound, bool loopback)
    : options_(std::move(options)),
      any_host_(!loopback && options_.hosts.empty()),
      any_origin_(contains(options_.origins, "*")) {
  for (std::string& host : options_.hosts) host = lower(name_of(host));
  for (std::string& origin : options_.origins) origin = lower(origin);
  if (!bound.empty()) options_.hosts.push_back(lower(bound));
}

bool Sites::knows(std::string_view host) const {
  if (any_host_ || host.empty()) return true;
  const std::string name(name_of(host));
  return is_loopback(name) || contains(options_.hosts, name);
}

bool Sites::admits(std::string_view origin) const {
  return any_origin_ || contains(options_.origins, origin);
}

ApiStatus Sites::check(std::string_view host, std::string_view origin) const {
  const std::string name = lower(host), page = lower(origin);
  if (!knows(name))
    return ApiError{.status = 403,
                    .message = fmt::format("this server is not known as {}; if it should be, start "
                                           "it with --allow-host NAME",
                                           in_quotes(host)),
                    .code = "host_not_allowed"};
  if (page.empty() || admits(page) || same_host(page, name)) return base::Done{};
  return ApiError{.status = 403,
                  .message = fmt::format("pages of {} may not use this server; if they should, "
                                         "start it with --allow-origin ORIGIN",
                                         in_quotes(origin)),
                  .code = "origin_not_allowed"};
}

std::string Sites::answer_lines(std::string_view origin) const {
  if (origin.empty() || !admits(lower(origin))) return "";
  // Without this header, pages cannot read X-Request-Id, Retry-After and X-Kvick-Ignored-Fields.
  constexpr std::string_view kExpose = "Access-Control-Expose-Headers: *\r\n";
  if (any_origin_) return fmt::format("Access-Control-Allow-Origin: *\r\n{}", kExpose);
  return fmt::format("Access-Control-Allow-Origin: {}\r\nVary: Origin\r\n{}", origin, kExpose);
}

HttpResponse preflight_answer(const Preflight& asked) {
  HttpResponse answer = {.type = "text/plain"};
  // The origin is allowed already, so all requested methods and headers are: SDKs send headers of
  // their own.
  if (is_list_of_names(asked.method))
    answer.headers.emplace_back("Access-Control-Allow-Methods", asked.method);
  if (is_list_of_names(asked.headers))
    answer.headers.emplace_back("Access-Control-Allow-Headers", asked.headers);
  answer.headers.emplace_back("Access-Control-Max-Age", "600");
  return answer;
}

}  // namespace kvick::server
