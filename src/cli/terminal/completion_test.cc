#include "cli/terminal/completion.h"

#include <gtest/gtest.h>

namespace kvick::cli {
namespace {

// tests/cli/completion_test.py runs the scripts in real shells.
CommandText program() {
  const OptionText plugin = {.names = {"--kv-plugin"}, .kind = ValueKind::kFile, .help = "more"};
  const OptionText model = {
      .names = {"-m", "--model"}, .kind = ValueKind::kModel, .help = "it's a model"};
  const OptionText attention = {.names = {"--attn"}, .words = {"fused", "bmm"}, .help = "how"};
  const OptionText raw = {.names = {"--raw"}, .kind = ValueKind::kFlag, .help = "as it is"};
  const OptionText text = {.argument = "text", .help = "the prompt"};
  return {.name = "kvick",
          .options = {plugin},
          .commands = {{.name = "run",
                        .summary = "answer a prompt\nor chat",
                        .options = {model, attention, raw, text}},
                       {.name = "train", .commands = {{.name = "pca", .options = {model}}}}}};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(Completion, BashKnowsCommandsOptionsAndValues) {
  const std::string script = completion_script(program(), Shell::kBash);
  EXPECT_TRUE(has(script, "    'kvick') reply=('run' 'train') ;;\n")) << script;
  EXPECT_TRUE(has(script, "    'kvick train') reply=('pca') ;;\n"));
  EXPECT_TRUE(has(script, "'kvick run:-m' | 'kvick run:--model') reply=('@model') ;;\n"));
  EXPECT_TRUE(has(script, "'kvick run:--attn') reply=('fused' 'bmm') ;;\n"));
  EXPECT_TRUE(has(script, "'kvick run:') reply=('@text') ;;\n"));
  EXPECT_TRUE(has(script, "complete -F _kvick kvick\n"));
}

TEST(Completion, OptionsOfTheProgramBelongToEachCommand) {
  const std::string script = completion_script(program(), Shell::kBash);
  EXPECT_TRUE(has(script, "'kvick train pca:--kv-plugin') reply=('@file') ;;\n")) << script;
  EXPECT_TRUE(has(script, "'kvick train pca') reply=('--kv-plugin' '-m' '--model') ;;\n"));
}

TEST(Completion, AFlagTakesNoValue) {
  const std::string script = completion_script(program(), Shell::kBash);
  EXPECT_TRUE(has(script, "'--raw'"));
  EXPECT_FALSE(has(script, "kvick run:--raw"));
}

TEST(Completion, ZshShowsWhatEachNameMeans) {
  const std::string script = completion_script(program(), Shell::kZsh);
  EXPECT_TRUE(script.starts_with("#compdef kvick\n"));
  EXPECT_TRUE(has(script, "'run:answer a prompt'"));
  EXPECT_FALSE(has(script, "or chat"));
  EXPECT_TRUE(has(script, "'--model:it'\\''s a model'"));
}

TEST(Completion, FishTakesFilesOnlyWhereThereAreAny) {
  const std::string script = completion_script(program(), Shell::kFish);
  EXPECT_TRUE(has(script, " -s m -l model -r -F -a '(__kvick_models)' -d 'it\\'s a model'\n"))
      << script;
  EXPECT_TRUE(has(script, " -l attn -x -a 'fused bmm' -d 'how'\n"));
  EXPECT_TRUE(has(script, "complete -c kvick -n '__kvick_at \\'kvick run\\'' -l raw -d"));
  EXPECT_TRUE(has(script, "            case 'kvick run' 'kvick train' 'kvick train pca'\n"));
}

}  // namespace
}  // namespace kvick::cli
