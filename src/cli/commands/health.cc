// kvick health: checks whether a server takes requests, for containers and services.

#include <fmt/format.h>
#include <memory>

#include "cli/commands/commands.h"
#include "cli/models/http_status.h"

namespace kvick::cli {
namespace {

struct HealthFlags {
  std::string url = "http://127.0.0.1:8080";
  unsigned port = 0;  // 0: the port of url
  unsigned timeout_s = 3;
};

base::Result<int> health(const HealthFlags& flags, const Common& common) {
  std::string url = flags.port == 0 ? flags.url : fmt::format("http://127.0.0.1:{}", flags.port);
  while (url.ends_with('/')) url.pop_back();
  KVICK_TRY(const int status, http_status(url + "/health", flags.timeout_s));
  const bool healthy = status == 200;
  if (common.json)
    fmt::print("{{\"healthy\":{},\"status\":{}}}\n", healthy, status);
  else if (!common.quiet && healthy)
    fmt::print("{} takes requests\n", url);
  if (!healthy && !common.quiet)
    fmt::print(stderr, "kvick: {} takes no requests: status {}{}\n", url, status,
               status == 503 ? ", it loads its model or is being stopped" : "");
  return healthy ? 0 : 1;
}

}  // namespace

void add_health(const Command& app, const Common& common) {
  const Command command = app.add_command(
      "health",
      "ask a running server whether it takes requests: exit status 0 if it does, 1 while it loads "
      "its model, once it is being stopped, and where none answers");
  auto flags = std::make_shared<HealthFlags>();
  Option url = command.add_option("--url", flags->url, "the server").shows_default();
  command.add_option("--port", flags->port, "instead of --url: the server on this machine's port")
      .excludes(url)
      .in_range(1, 65535);
  command.add_option("--timeout", flags->timeout_s, "seconds to wait for its answer")
      .in_range(1, 3600)
      .shows_default();
  command.runs([&common, flags] { return health(*flags, common); });
}

}  // namespace kvick::cli
