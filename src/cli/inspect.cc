// kvick inspect FILE: what a model file says about itself.

#include <fmt/format.h>
#include <memory>

#include "cli/commands.h"
#include "cli/engine_options.h"
#include "io/describe.h"

namespace kvick::cli {

void add_inspect(CLI::App& app, const Common& common, Run& chosen) {
  CLI::App* command =
      app.add_subcommand("inspect", "show what a GGUF file or Hugging Face folder holds");
  auto path = std::make_shared<std::string>();
  command->add_option("file", *path, "a .gguf file or a Hugging Face folder")->required();
  command->callback([&common, &chosen, path] {
    chosen = [&common, path] {
      const auto file = io::ModelFile::open_for_inspection(*path);
      if (!file.ok()) return refuse(file.error());
      if (common.json)
        fmt::print("{}\n", io::describe_json(*file).dump(
                               2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      else
        fmt::print("{}", io::describe_text(*file));
      return 0;
    };
  });
}

}  // namespace kvick::cli
