// kvick list: lists the models in the cache, and the default model even before it is fetched.

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/commands/look.h"
#include "cli/models/model_use.h"
#include "cli/models/models.h"
#include "cli/models/reference.h"
#include "cli/options/print_json.h"
#include "cli/terminal/progress.h"
#include "cli/terminal/terminal.h"
#include "io/file/model_file.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Row {
  std::string name, path;
  std::string type = "?";  // the type that takes most bytes; ? if the file cannot be read
  uint64_t bytes = 0, parameters = 0;
  bool fetched = true;
  std::optional<int64_t> used;  // seconds since 1970
};

std::string main_type(const io::ModelFile& file) {
  std::array<uint64_t, kernels::kWeightTypes> bytes{};
  for (const io::Tensor& tensor : file.tensors())
    bytes[static_cast<size_t>(tensor.dtype)] += tensor.bytes();
  const auto most = std::max_element(bytes.begin(), bytes.end());
  if (*most == 0) return "?";
  return std::string(kernels::dtype_info(static_cast<kernels::DType>(most - bytes.begin())).name);
}

Row row_of(const std::string& name, const fs::path& path) {
  Row row;
  row.name = name;
  row.path = path.string();
  row.used = last_used(path);
  std::error_code none;
  if (fs::is_regular_file(path, none)) row.bytes = fs::file_size(path, none);
  const auto file = look_at(row.path);
  if (!file.ok()) return row;
  row.type = main_type(*file);
  row.bytes = file->file_bytes();
  for (const io::Tensor& tensor : file->tensors()) row.parameters += tensor.elements();
  return row;
}

std::vector<Row> rows_of(const fs::path& cache) {
  std::vector<Row> rows;
  for (const std::string& name : cached_models(cache)) {
    const auto path = resolve_model(name, cache);
    if (path.ok()) rows.push_back(row_of(name, *path));
  }
  for (const KnownModel& model : known_models()) {
    const bool there = std::any_of(rows.begin(), rows.end(),
                                   [&](const Row& row) { return row.name == model.name; });
    if (there) continue;
    Row row;
    row.name = model.name;
    row.path = (cache / model.file).string();
    row.type = model.type;
    row.bytes = model.member_bytes;
    row.fetched = false;
    rows.push_back(std::move(row));
  }
  return rows;
}

ordered_json to_json(const std::vector<Row>& rows, const fs::path& cache) {
  ordered_json models = ordered_json::array();
  for (const Row& row : rows) {
    models.push_back({{"name", row.name},
                      {"fetched", row.fetched},
                      {"default", row.name == kDefaultModel},
                      {"type", row.type},
                      {"bytes", row.bytes},
                      {"path", row.path}});
    if (row.fetched) models.back()["parameters"] = row.parameters;
    if (row.used) models.back()["used"] = *row.used;
  }
  return {{"cache", cache.string()}, {"models", models}};
}

std::string used_text(const Row& row) {
  if (!row.used) return row.fetched ? "never" : "";
  return fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(static_cast<std::time_t>(*row.used)));
}

void print_table(const std::vector<Row>& rows) {
  size_t width = 5;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  const auto line = [width](std::string_view name, std::string_view type, std::string_view size,
                            std::string_view used, std::string_view file) {
    fmt::print("{:<{}}  {:<7}  {:>9}  {:<16}  {}\n", printable(name), width, type, size, used,
               printable(file));
  };
  line("model", "type", "size", "last used", "file");
  for (const Row& row : rows)
    line(row.name, row.type, amount_text(static_cast<double>(row.bytes), Unit::kBytes),
         used_text(row), row.fetched ? row.path : "not fetched: kvick pull " + row.name);
}

base::Result<int> list(const Common& common) {
  KVICK_TRY(const fs::path cache, models_dir());
  const std::vector<Row> rows = rows_of(cache);
  if (common.json)
    print_json(to_json(rows, cache));
  else
    print_table(rows);
  return 0;
}

}  // namespace

void add_list(const Command& app, const Common& common) {
  const Command command = app.add_command(
      "list",
      "the models in the cache, and the default one before it is fetched; kvick pull lists more\n"
      "name: what -m, kvick run, inspect and rm take; type: of most of the weights; "
      "last used: by a command that ran it");
  command.runs([&common] { return list(common); });
}

}  // namespace kvick::cli
