#pragma once
// The flags of `kvick serve` that say who may use it, and what a request may ask for.

#include <string>
#include <vector>

#include "cli/options/command_line.h"
#include "server/api/serve.h"

namespace kvick::cli {

struct AccessFlags {
  std::string api_key_file;
  std::vector<std::string> hosts, origins;
  uint64_t max_body = 8 << 20;
  uint64_t max_bodies = 0;  // 0: 8 times max_body
  int32_t max_priority = 0;
  uint32_t max_per_key = 0, max_per_address = 0;  // requests at once; 0: any number
  std::string client_kv = "own";                  // comma-separated names
};

void add_access_flags(const Command& command, AccessFlags& flags);
// Copies the flags into the server's options. Errors: a key file that cannot be read, a value out
// of range, a name that is no strategy, type or policy.
base::Status<> apply(const AccessFlags& flags, server::ServeOptions& options);

}  // namespace kvick::cli
