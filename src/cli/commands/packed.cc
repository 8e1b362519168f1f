// kvick packed: lists or deletes the packed weights that are kept on disk.

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/memory.h"
#include "cli/commands/commands.h"
#include "cli/models/models.h"
#include "cli/options/print_json.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal.h"
#include "io/packed/packed_folder.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct PackedFlags {
  std::string folder, model;
  bool remove = false;
};

constexpr int64_t kSecond = 1'000'000'000;

// Returns the entries of one model, or of all models if `model` is empty.
std::vector<io::PackedEntry> chosen_entries(const fs::path& folder, const fs::path& model) {
  std::vector<io::PackedEntry> entries = io::packed_entries(folder);
  std::erase_if(entries, [&](const io::PackedEntry& entry) {
    std::error_code none;
    return !model.empty() && entry.model != model && !fs::equivalent(entry.model, model, none);
  });
  return entries;
}

// Returns what is wrong with a file whose model is unknown: it cannot be read, or it can and is
// damaged.
std::string problem_of(const io::PackedEntry& entry) {
  const auto file = base::MappedFile::open(entry.path.string());
  return file.ok() ? "damaged: " + entry.path.string() : file.error().message;
}

ordered_json to_json(const fs::path& folder, const std::vector<io::PackedEntry>& entries,
                     bool removed) {
  ordered_json files = ordered_json::array();
  uint64_t bytes = 0;
  for (const io::PackedEntry& entry : entries) {
    bytes += entry.bytes;
    files.push_back({{"path", entry.path.string()},
                     {"bytes", entry.bytes},
                     {"used", entry.used / kSecond},
                     {"model", entry.model}});
    if (entry.model.empty() && !removed) files.back()["problem"] = problem_of(entry);
  }
  return {{"folder", folder.string()}, {"deleted", removed}, {"bytes", bytes}, {"files", files}};
}

void print_table(const fs::path& folder, const std::vector<io::PackedEntry>& entries) {
  if (entries.empty()) return fmt::print("no packed weights in {}\n", folder.string());
  fmt::print("{:>9}  {:<16}  {}\n", "size", "last used", "model");
  for (const io::PackedEntry& entry : entries) {
    const std::time_t used = entry.used / kSecond;
    fmt::print("{:>9}  {:%Y-%m-%d %H:%M}  {}\n",
               amount_text(static_cast<double>(entry.bytes), Unit::kBytes), fmt::localtime(used),
               printable(entry.model.empty() ? problem_of(entry) : entry.model));
  }
}

base::Result<int> packed(const PackedFlags& flags, const Common& common) {
  fs::path folder = flags.folder, model;
  if (folder.empty()) {
    KVICK_TRY(folder, packed_dir());
  }
  if (!flags.model.empty()) {
    KVICK_TRY(model, find_model(flags.model));
  }
  const std::vector<io::PackedEntry> entries = chosen_entries(folder, model);
  uint64_t bytes = 0;
  for (const io::PackedEntry& entry : entries) {
    std::error_code error;
    bytes += entry.bytes;
    if (flags.remove && !fs::remove(entry.path, error) && error)
      return base::fail("cannot delete {}: {}", entry.path.string(), error.message());
  }
  if (common.json) {
    print_json(to_json(folder, entries, flags.remove));
  } else if (flags.remove) {
    fmt::print("deleted {} {}, {}\n", entries.size(), entries.size() == 1 ? "file" : "files",
               amount_text(static_cast<double>(bytes), Unit::kBytes));
  } else {
    print_table(folder, entries);
  }
  return 0;
}

}  // namespace

void add_packed(const Command& app, const Common& common) {
  const Command command = app.add_command(
      "packed",
      "the packed weights that are kept on disk so that models start fast\n"
      "size, last use and model of each file; what is deleted is made again when it is needed");
  auto flags = std::make_shared<PackedFlags>();
  command
      .add_option("-m,--model", flags->model,
                  "only those of this model: a file, a folder, or the name of a pulled model")
      .takes(ValueKind::kModel);
  command.add_flag("--delete", flags->remove, "delete them");
  command
      .add_option("--folder", flags->folder,
                  "the folder, if it is not the one beside the model cache")
      .takes(ValueKind::kFolder);
  command.runs([&common, flags] { return packed(*flags, common); });
}

}  // namespace kvick::cli
