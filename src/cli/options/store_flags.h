#pragma once
// The flags of a prefix store shared by several processes.

#include <functional>
#include <memory>
#include <string>

#include "cli/options/command_line.h"
#include "engine/prefix/prefix_tier.h"

namespace kvick::cli {

struct StoreFlags {
  std::string url, password_file, ca_file;
  bool wanted() const { return !url.empty(); }
};

void add_store_flags(const Command& command, StoreFlags& flags);
// Checks the flags. Errors: an invalid URL, a file that cannot be read, a flag that needs
// --kv-store.
base::Status<> check(const StoreFlags& flags);
// Opens the store. A store that does not answer is reported, and tried again while the program
// runs.
base::Result<std::shared_ptr<engine::PrefixTier>> open_store(
    const StoreFlags& flags, std::function<void(const std::string&)> report);

}  // namespace kvick::cli
