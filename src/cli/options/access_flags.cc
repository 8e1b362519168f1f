#include "cli/options/access_flags.h"

#include <limits>
#include <sstream>

namespace kvick::cli {
namespace {

constexpr uint64_t kBodies = 8;  // default of --max-body-total, in bodies of --max-body

void add_limits(const Command& command, AccessFlags& flags, const char* group) {
  command.add_bytes("--max-body", flags.max_body, "most bytes of a request, e.g. 8MB (the default)")
      .in_group(group);
  command
      .add_bytes("--max-body-total", flags.max_bodies,
                 "most bytes of all requests that are being read, e.g. 64MB; further ones are told "
                 "to try again (default: 8 times --max-body)")
      .in_group(group);
  command
      .add_option("--max-requests-per-key", flags.max_per_key,
                  "requests that each key of --api-key-file may have at once; further ones get "
                  "status 429 (default: any number)")
      .in_group(group);
  command
      .add_option("--max-requests-per-address", flags.max_per_address,
                  "the same for each address that requests come from, of IPv6 each network of 64 "
                  "bits (default: any number)")
      .in_group(group);
  command
      .add_option("--max-priority", flags.max_priority,
                  "highest priority that a request may have; at 0 it can only put itself last")
      .in_range(0, std::numeric_limits<int32_t>::max())
      .shows_default()
      .in_group(group);
  command
      .add_option("--client-kv", flags.client_kv,
                  "which caches a request may choose by its field kv: own is the server's --kv and "
                  "--kv-select, and types that take no more memory; names of strategies, types and "
                  "policies, separated by commas, add to it; any allows all")
      .shows_default()
      .in_group(group);
}

std::vector<std::string> split(const std::string& names) {
  std::vector<std::string> parts;
  std::istringstream in(names);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

}  // namespace

void add_access_flags(const Command& command, AccessFlags& flags) {
  const char* group = "Access";
  command
      .add_option("--api-key-file", flags.api_key_file,
                  "keys that clients must give, one a line (default: no key is asked for)")
      .takes(ValueKind::kFile)
      .in_group(group);
  command
      .add_option(
          "--allow-host", flags.hosts,
          "a host name, without port, by which clients may address this server (repeatable). "
          "Without it, a server on a loopback address answers to localhost only, which keeps out "
          "web pages under other names; a server on another address answers to all names")
      .takes_one()
      .in_group(group);
  command
      .add_option("--allow-origin", flags.origins,
                  "web site whose pages may use the server, e.g. http://localhost:3000, or * for "
                  "all; may be given again (default: its own page only)")
      .takes_one()
      .in_group(group);
  add_limits(command, flags, group);
}

base::Status<> apply(const AccessFlags& flags, server::ServeOptions& options) {
  if (!flags.api_key_file.empty()) {
    KVICK_TRY(options.keys, server::read_api_keys(flags.api_key_file));
  }
  if (flags.max_per_key != 0 && flags.api_key_file.empty())
    return base::fail(
        "--max-requests-per-key needs keys to tell clients by; give --api-key-file, or limit "
        "addresses with --max-requests-per-address");
  options.counts = {.per_key = flags.max_per_key, .per_address = flags.max_per_address};
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
  return server::read_client_kv(split(flags.client_kv), options.limits);
}

}  // namespace kvick::cli
