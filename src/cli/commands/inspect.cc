// kvick inspect MODEL: prints the metadata and tensors of a model file.

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/look.h"
#include "cli/models/models.h"
#include "cli/terminal/terminal.h"
#include "io/file/describe.h"

namespace kvick::cli {
namespace {

base::Result<int> inspect(const std::string& name, const Common& common) {
  KVICK_TRY(const std::filesystem::path path, find_model(name));
  KVICK_TRY(const io::ModelFile file, look_at(path.string()));
  if (common.json)
    fmt::print("{}\n", io::describe_json(file).dump(
                           2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  else
    fmt::print("{}", printable(io::describe_text(file)));
  return 0;
}

}  // namespace

void add_inspect(const Command& app, const Common& common) {
  const Command command =
      app.add_command("inspect", "show what a model file, a predictor or a folder holds");
  auto name = std::make_shared<std::string>();
  command
      .add_option(
          "model", *name,
          "a GGUF file (a model, or a predictor: .gguf, .kvp), a Hugging Face folder, or the "
          "name of a pulled model, as kvick list shows it")
      .takes(ValueKind::kModel)
      .required();
  command.runs([&common, name] { return inspect(*name, common); });
}

}  // namespace kvick::cli
