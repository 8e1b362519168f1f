// kvick rm NAME: deletes models from the cache.

#include <cstdio>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/models/models.h"
#include "cli/models/removal.h"
#include "cli/options/print_json.h"
#include "cli/terminal/progress.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

struct RmFlags {
  std::vector<std::string> names;
  bool yes = false;
};

std::string size_of(uint64_t bytes) {
  return amount_text(static_cast<double>(bytes), Unit::kBytes);
}

bool agreed(const Removal& removal) {
  fmt::print(stderr, "delete {} ({})? [y/N] ", removal.model.string(), size_of(removal.bytes));
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "Y" || answer == "yes";
}

base::Result<int> rm(const RmFlags& flags, const Common& common) {
  KVICK_TRY(const fs::path cache, models_dir());
  std::vector<Removal> removals;  // all names are checked before the first model is deleted
  for (const std::string& name : flags.names) {
    KVICK_TRY(Removal removal, plan_removal(name, cache));
    removals.push_back(std::move(removal));
  }
  const bool asks = isatty(STDIN_FILENO) == 1;
  if (!flags.yes && !asks)
    return base::fail(
        "kvick rm asks before it deletes, but there is no terminal to ask on: give --yes");
  auto deleted = nlohmann::ordered_json::array();
  for (const Removal& removal : removals) {
    if (!flags.yes && !agreed(removal)) continue;
    KVICK_TRY_VOID(remove_model(removal, cache));
    deleted.push_back({{"path", removal.model.string()}, {"bytes", removal.bytes}});
    if (!common.json)
      fmt::print("deleted {}: {} freed\n", removal.model.string(), size_of(removal.bytes));
  }
  if (common.json) print_json({{"deleted", deleted}});
  return 0;
}

}  // namespace

void add_rm(const Command& app, const Common& common) {
  const Command command =
      app.add_command("rm",
                      "delete models from the cache, and say what that frees\n"
                      "Packed weights are kept apart: kvick packed lists and deletes them.");
  auto flags = std::make_shared<RmFlags>();
  command.add_option("name", flags->names, "names as kvick list shows them")
      .takes(ValueKind::kModel)
      .required();
  command.add_flag("-y,--yes", flags->yes,
                   "do not ask; needed where there is no terminal to ask on");
  command.runs([&common, flags] { return rm(*flags, common); });
}

}  // namespace kvick::cli
