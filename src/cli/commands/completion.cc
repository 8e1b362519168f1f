// kvick completion SHELL and kvick man: completion scripts for shells, and manual pages.

#include "cli/terminal/completion.h"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <memory>
#include <optional>

#include "cli/commands/commands.h"
#include "cli/terminal/man_page.h"
#include "cli/terminal/version.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

struct CompletionFlags {
  std::optional<Shell> shell;
};

struct ManFlags {
  std::vector<std::string> command;
  std::string folder;
};

std::string page(std::span<const CommandText* const> path) {
  return man_page(path, fmt::format("kvick {}", program_version()));
}

// Writes the page of the path's last command, and the pages of all commands below it.
base::Status<> write_pages(const fs::path& folder, std::vector<const CommandText*> path) {
  const fs::path file = folder / (page_name(path) + ".1");
  std::ofstream out(file, std::ios::binary);
  out << page(path);
  if (!out.flush()) return base::fail("cannot write {}", file.string());
  for (const CommandText& below : path.back()->commands) {
    path.push_back(&below);
    KVICK_TRY_VOID(write_pages(folder, path));
    path.pop_back();
  }
  return base::Done{};
}

base::Result<int> man(const ManFlags& flags, const Command& app) {
  const CommandText program = app.text();
  if (!flags.folder.empty()) {
    std::error_code error;
    fs::create_directories(flags.folder, error);
    if (error) return base::fail("cannot make {}: {}", flags.folder, error.message());
    KVICK_TRY_VOID(write_pages(flags.folder, {&program}));
    return 0;
  }
  const std::vector<const CommandText*> path = find_command(program, flags.command);
  if (path.empty())
    return base::fail("there is no command {}; kvick --help lists them",
                      fmt::join(flags.command, " "));
  fmt::print("{}", page(path));
  return 0;
}

}  // namespace

void add_completion(const Command& app) {
  const Command command = app.add_command(
      "completion",
      "print the script by which a shell completes kvick's commands, options and values\n"
      "bash: source <(kvick completion bash); zsh: source <(kvick completion zsh); fish: kvick "
      "completion fish | source");
  auto flags = std::make_shared<CompletionFlags>();
  command
      .add_choice<std::optional<Shell>>(
          "shell", flags->shell,
          {{"bash", Shell::kBash}, {"zsh", Shell::kZsh}, {"fish", Shell::kFish}},
          "the shell: bash, zsh or fish")
      .required();
  command.runs([app, flags] {
    fmt::print("{}", completion_script(app.text(), *flags->shell));
    return base::Result<int>(0);
  });
}

void add_man(const Command& app) {
  const Command command = app.add_command(
      "man", "print the manual page of kvick or of a command: kvick man train distil | man -l -");
  auto flags = std::make_shared<ManFlags>();
  const Option words =
      command.add_option("command", flags->command, "the command (default: kvick)");
  command
      .add_option("--folder", flags->folder,
                  "write the pages of all commands into this folder instead")
      .takes(ValueKind::kFolder)
      .excludes(words);
  command.runs([app, flags] { return man(*flags, app); });
}

}  // namespace kvick::cli
