#include "cli/access_flags.h"

#include <limits>

namespace kvick::cli {
namespace {

constexpr uint64_t kBodies = 8;  // longest ones that all may take together, by default

void add_limits(CLI::App& command, AccessFlags& flags, const char* group) {
  command.add_option("--max-body", flags.max_body, "most bytes of a request, e.g. 8MB")
      ->transform(CLI::AsSizeValue(false))
      ->group(group);
  command
      .add_option(
          "--max-body-total", flags.max_bodies,
          "most bytes of all requests that are being read, e.g. 64MB; further ones are told "
          "to try again (default: 8 times --max-body)")
      ->transform(CLI::AsSizeValue(false))
      ->group(group);
  command
      .add_option("--max-priority", flags.max_priority,
                  "highest priority that a request may have; at 0 it can only put itself last")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()))
      ->capture_default_str()
      ->group(group);
  command
      .add_option("--client-kv", flags.client_kv,
                  "which caches a request may choose by its field kv: own is the server's --kv and "
                  "--kv-select, and types that take no more memory; names of strategies, types and "
                  "policies, separated by commas, add to it; any allows all")
      ->delimiter(',')
      ->capture_default_str()
      ->group(group);
}

}  // namespace

void add_access_flags(CLI::App& command, AccessFlags& flags) {
  const char* group = "Access";
  command
      .add_option("--api-key-file", flags.api_key_file,
                  "keys that clients must give, one a line (default: no key is asked for)")
      ->group(group);
  command
      .add_option("--allow-host", flags.hosts,
                  "further name that clients call the server by, without port; may be given "
                  "again. On a loopback address it answers to localhost only, which keeps web "
                  "pages of other names out; elsewhere to all names, unless some are given")
      ->group(group);
  command
      .add_option("--allow-origin", flags.origins,
                  "web site whose pages may use the server, e.g. http://localhost:3000, or * for "
                  "all; may be given again (default: its own page only)")
      ->group(group);
  add_limits(command, flags, group);
}

base::Status<> apply(const AccessFlags& flags, server::ServeOptions& options) {
  if (!flags.api_key_file.empty()) {
    KVICK_TRY(options.keys, server::read_api_keys(flags.api_key_file));
  }
  options.network.sites = {.hosts = flags.hosts, .origins = flags.origins};
  KVICK_TRY_VOID(server::check(options.network.sites));
  const bool given = flags.max_bodies != 0;
  if (given && flags.max_bodies < flags.max_body)
    return base::fail(
        "--max-body-total is {} bytes, less than the {} of one request; raise it, or lower "
        "--max-body",
        flags.max_bodies, flags.max_body);
  options.network.most_body_bytes = flags.max_body;
  options.network.most_bodies_bytes =
      given ? flags.max_bodies
            : std::min(flags.max_body, std::numeric_limits<uint64_t>::max() / kBodies) * kBodies;
  options.limits.max_priority = flags.max_priority;
  return server::read_client_kv(flags.client_kv, options.limits);
}

}  // namespace kvick::cli
