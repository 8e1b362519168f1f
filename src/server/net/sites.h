#pragma once
// Which web sites may use the server. A browser sends requests of any page it shows, so a page from
// elsewhere could use a server that only its reader can reach: by a name that its owner points to
// 127.0.0.1 (DNS rebinding), which Host gives away, or from its own site, which Origin names.

#include <string>
#include <string_view>
#include <vector>

#include "server/request/error.h"

namespace kvick::server {

struct SiteOptions {
  std::vector<std::string> hosts;  // further names that the server is called by, without ports
  std::vector<std::string>
      origins;  // other sites whose pages may use it: "https://x.org"; "*": all
};
// Errors: what is no name, or no origin.
base::Status<> check(const SiteOptions& options);

class Sites {
 public:
  // bound: the address that the server was told to listen on; loopback: only this machine reaches
  // it. Then Host must be localhost, a loopback address, bound, or one of hosts. Else any will do,
  // unless there are hosts.
  explicit Sites(SiteOptions options = {}, std::string_view bound = "", bool loopback = false);

  // Checks a request's Host and Origin headers, empty if missing (programs other than browsers send
  // no Origin). Error: 403.
  ApiStatus check(std::string_view host, std::string_view origin) const;
  // Lines of an answer's head that let a page of that origin read it; empty: there are none.
  std::string answer_lines(std::string_view origin) const;

 private:
  bool knows(std::string_view host) const;
  bool admits(std::string_view origin) const;

  SiteOptions options_;  // in lower case
  bool any_host_, any_origin_;
};

// What a browser asks before a page's request to another site.
struct Preflight {
  std::string method, headers;  // Access-Control-Request-...
};
// The answer where Sites::check found nothing wrong.
HttpResponse preflight_answer(const Preflight& asked);

}  // namespace kvick::server
