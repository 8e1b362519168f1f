// kvick chat [MODEL].

#include <memory>

#include "cli/commands/answering.h"
#include "cli/commands/commands.h"
#include "cli/terminal/line_reader.h"

namespace kvick::cli {
namespace {

base::Result<int> chat_with(const AnswerFlags& flags, const Common& common) {
  if (common.json)
    return base::fail("kvick chat has no --json output: use kvick run with a prompt");
  KVICK_TRY(Answering answering, open_answering(flags, common));
  return start_chat(answering, flags, common);
}

}  // namespace

void add_chat(const Command& app, const Common& common) {
  const std::string editing =
      has_line_editing() ? "lines are edited with the keys of a shell; /help lists the commands"
                         : "/help lists the commands; this kvick was built without libedit and has "
                           "no editing of lines";
  const Command command = app.add_command("chat", "talk with a model\n" + editing);
  auto flags = std::make_shared<AnswerFlags>();
  auto model = std::make_shared<std::string>();
  command.add_option("MODEL", *model, "what -m takes").takes(ValueKind::kModel);
  add_answer_flags(command, *flags);
  command.runs([&common, flags, model]() -> Command::Status {
    if (!model->empty() && !flags->engine.model.empty())
      return base::fail("MODEL and --model cannot be given together");
    if (!model->empty()) flags->engine.model = *model;
    return chat_with(*flags, common);
  });
}

}  // namespace kvick::cli
