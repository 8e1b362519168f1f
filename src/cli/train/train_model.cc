// kvick train lm, bct, draft, eval, check, tokens and export. The first five run the program
// kvick-train, which needs libtorch.

#include "cli/train/train_model.h"

#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "base/text_file.h"
#include "cli/commands/commands.h"
#include "cli/models/models.h"
#include "cli/options/engine_options.h"
#include "cli/options/print_json.h"
#include "cli/train/mistakes.h"
#include "cli/transfer/failure.h"
#include "model/core/vocabulary.h"
#include "train/files/export.h"
#include "train/from_model/tokenise.h"

namespace kvick::cli {
namespace {

namespace fs = std::filesystem;

struct TokensFlags {
  std::vector<std::string> files;
  std::string output, tokenizer;
  double held_out = 0.05;
};

struct ExportFlags {
  std::string checkpoint, output, type = "f32";
  uint64_t context = 0;
};

base::Result<text::Vocabulary> vocabulary_for(const TokensFlags& flags) {
  if (flags.tokenizer.empty()) return train::byte_vocabulary();
  KVICK_TRY(const fs::path path, find_model(flags.tokenizer));
  KVICK_TRY(const io::ModelFile file, io::ModelFile::open(path));
  return model::read_vocabulary(file);
}

base::Result<int> write_tokens(const TokensFlags& flags, const Common& common) {
  std::vector<std::string> texts;
  for (const std::string& path : flags.files) {
    KVICK_TRY(std::string text, base::read_text(path));
    texts.push_back(std::move(text));
  }
  KVICK_TRY(text::Vocabulary vocabulary, vocabulary_for(flags));
  KVICK_TRY(const std::unique_ptr<text::Tokenizer> tokenizer,
            text::Tokenizer::make(std::move(vocabulary)));
  const train::TokenData data = train::tokenise(*tokenizer, texts, flags.held_out);
  train::write_tokens(flags.output, data);
  if (common.json)
    print_json({{"output", flags.output},
                {"vocab", data.vocab},
                {"tokens", data.train.size()},
                {"held_out", data.held_out.size()}});
  else
    fmt::print("{}: {} tokens to train on, {} held out, of a vocabulary of {}\n", flags.output,
               data.train.size(), data.held_out.size(), data.vocab);
  return 0;
}

int export_checkpoint(const ExportFlags& flags, const Common& common) {
  const train::FileType type = train::file_type_of(flags.type);
  train::export_model(train::read_checkpoint(flags.checkpoint), flags.output, type, flags.context);
  if (common.json)
    print_json({{"output", flags.output}});
  else
    fmt::print("{}\n", flags.output);
  return 0;
}

// Replaces this process with kvick-train, which lies beside this program.
base::Result<int> become_trainer(const std::string& name, const std::vector<std::string>& rest,
                                 const Common& common) {
  const fs::path trainer = fs::read_symlink("/proc/self/exe").parent_path() / "kvick-train";
  if (!fs::exists(trainer))
    return base::fail(
        "kvick train {} needs {}, which is built where libtorch is: apt-get install libtorch-dev "
        "libopenblas0-openmp, then build kvick again",
        name, trainer.string());
  std::vector<std::string> words = {trainer.string(), name};
  words.insert(words.end(), rest.begin(), rest.end());
  if (common.json) words.emplace_back("--json");
  if (common.quiet) words.emplace_back("--quiet");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  throw failure("{} cannot be started: {}", trainer.string(), std::strerror(errno));
}

void add_trainer(const Command& train, const Common& common, const char* name, const char* what) {
  const Command command = train.add_command(name, what);
  command.passes_on([&common, name = std::string(name)](const std::vector<std::string>& words) {
    return become_trainer(name, words, common);
  });
}

void add_tokens(const Command& train, const Common& common) {
  const Command command =
      train.add_command("tokens", "texts as tokens, for kvick train lm and bct --data");
  auto flags = std::make_shared<TokensFlags>();
  command.add_option("-f,--file", flags->files, "the texts").takes(ValueKind::kFile).required();
  command.add_option("-o,--output", flags->output, "the file to write")
      .takes(ValueKind::kFile)
      .required();
  command
      .add_option("--tokenizer", flags->tokenizer,
                  "the model whose vocabulary to take (default: every byte is a token)")
      .takes(ValueKind::kModel);
  command.add_option("--held-out", flags->held_out, "share of each text, at its end, to keep apart")
      .shows_default()
      .in_range(0.0, 0.9);
  command.runs(
      [&common, flags] { return mistakes_of([&] { return write_tokens(*flags, common); }); });
}

void add_export(const Command& train, const Common& common) {
  const Command command =
      train.add_command("export", "a checkpoint's best weights as a model file");
  auto flags = std::make_shared<ExportFlags>();
  command.add_option("checkpoint", flags->checkpoint, "FOLDER/checkpoint.kvc")
      .takes(ValueKind::kFile)
      .required();
  command.add_option("-o,--output", flags->output, "the file to write, NAME.gguf")
      .takes(ValueKind::kFile)
      .required();
  command.add_option("--type", flags->type, "type of the matrices: f32, bf16 or q8_0")
      .suggests({"f32", "bf16", "q8_0"})
      .shows_default();
  command
      .add_option("--ctx", flags->context,
                  "the longest sequence that the file allows (default: as in training)")
      .in_range(1, 1 << 27);
  command.runs([&common, flags] {
    return mistakes_of([&] { return base::Result<int>(export_checkpoint(*flags, common)); });
  });
}

}  // namespace

void add_model_training(const Command& train, const Common& common) {
  add_tokens(train, common);
  add_trainer(train, common, "lm", "train a transformer of the llama family");
  add_trainer(train, common, "bct", "train a model with a memory of slots (BCT)");
  add_trainer(train, common, "draft", "train some of a model's layers as a draft model for it");
  add_trainer(train, common, "maple",
              "train a model and the predictor of the rows that it reads together");
  add_trainer(train, common, "eval", "perplexity of a checkpoint at several contexts");
  add_trainer(train, common, "check", "test the trainer's fast paths on this machine");
  add_export(train, common);
}

}  // namespace kvick::cli
