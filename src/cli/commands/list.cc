// kvick list: the models in the cache, and those that `kvick pull` knows by name.

#include <algorithm>
#include <array>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/models/models.h"
#include "cli/models/reference.h"
#include "cli/terminal/progress.h"
#include "io/file/model_file.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

struct Row {
  std::string name, path;
  std::string type = "?";  // of most bytes of the tensors; of a file that cannot be read: ?
  uint64_t bytes = 0, parameters = 0;
  bool fetched = true;
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
  Row row = {.name = name, .path = path.string()};
  std::error_code none;
  if (fs::is_regular_file(path, none)) row.bytes = fs::file_size(path, none);
  const auto file = io::ModelFile::open_for_inspection(row.path);
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
    if (!there)
      rows.push_back({.name = std::string(model.name),
                      .path = (cache / model.file).string(),
                      .type = std::string(model.type),
                      .bytes = model.member_bytes,
                      .fetched = false});
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
  }
  return {{"cache", cache.string()}, {"models", models}};
}

void print_table(const std::vector<Row>& rows) {
  size_t width = 5;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  fmt::print("{:<{}}  {:<7}  {:>9}  {}\n", "model", width, "type", "size", "file");
  for (const Row& row : rows)
    fmt::print("{:<{}}  {:<7}  {:>9}  {}\n", row.name, width, row.type,
               amount_text(static_cast<double>(row.bytes), Unit::kBytes),
               row.fetched ? row.path : "not fetched: kvick pull " + row.name);
}

base::Result<int> list(const Common& common) {
  KVICK_TRY(const fs::path cache, models_dir());
  const std::vector<Row> rows = rows_of(cache);
  if (common.json)
    fmt::print("{}\n",
               to_json(rows, cache).dump(-1, ' ', false, ordered_json::error_handler_t::replace));
  else
    print_table(rows);
  return 0;
}

}  // namespace

void add_list(const Command& app, const Common& common) {
  const Command command =
      app.add_command("list",
                      "the models in the cache, and those that kvick pull knows by name\n"
                      "name: what -m and kvick inspect take; type: of most of the weights");
  command.runs([&common] { return list(common); });
}

}  // namespace kvick::cli
