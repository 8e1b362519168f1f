#pragma once
// Which web sites may use the server. A browser sends the requests of any page it shows. So a
// foreign page could use a server that only its reader can reach: through a name that its owner
// points to 127.0.0.1 (DNS rebinding), which Host reveals, or from its own site, which Origin
// names.

#include <string>
#include <string_view>
#include <vector>

#include "server/request/error.h"

namespace kvick::server {

struct SiteOptions {
  std::vector<std::string> hosts;  // additional names of the server, without ports
  std::vector<std::string>
      origins;  // other sites whose pages may use the server: "https://x.org"; "*": all
};
// Error: an entry is not a host name or not an origin.
base::Status<> check(const SiteOptions& options);

class Sites {
 public:
  // bound: the address that the server was told to listen on. loopback: only this machine reaches
  // the server; then Host must be localhost, a loopback address, `bound`, or one of options.hosts.
  // Otherwise any Host is accepted if options.hosts is empty.
  explicit Sites(SiteOptions options = {}, std::string_view bound = "", bool loopback = false);

  // Checks a request's Host and Origin headers, which are empty if missing (only browsers send
  // Origin). Error: 403.
  ApiStatus check(std::string_view host, std::string_view origin) const;
  // Returns header lines that let pages of this origin read the answer, or "".
  std::string answer_lines(std::string_view origin) const;

 private:
  bool knows(std::string_view host) const;
  bool admits(std::string_view origin) const;

  SiteOptions options_;  // in lower case
  bool any_host_, any_origin_;
};

// The question of a browser before a page's request to another site.
struct Preflight {
  std::string method, headers;  // values of Access-Control-Request-Method and -Headers
};
// Returns the answer to a preflight request that Sites::check has accepted.
HttpResponse preflight_answer(const Preflight& asked);

}  // namespace kvick::server
