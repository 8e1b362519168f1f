#include "cli/commands/answering.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <unistd.h>
#include <utility>

#include "cli/chat/chat.h"
#include "cli/models/fetch.h"
#include "cli/models/reference.h"
#include "cli/options/spec_flag.h"
#include "cli/terminal/line_reader.h"
#include "cli/terminal/terminal.h"
#include "engine/sampling/bad_words.h"

namespace kvick::cli {
namespace {

// Without -n, the model's own context limits the answer: the cache may be endless, and the model
// may never end its answer.
uint32_t answer_limit(const engine::Engine& engine, const engine::KvOptions& kv,
                      const std::optional<uint32_t>& given) {
  return given ? *given : std::min(engine.most_tokens(kv), engine.model().config().context);
}

std::string model_name(const AnswerFlags& flags) {
  const std::string& name = flags.engine.model;
  if (name.empty()) return std::string(kDefaultModel);
  std::error_code none;
  const std::filesystem::path path(name);
  return std::filesystem::exists(path, none) && path.has_filename() ? path.filename().string()
                                                                    : name;
}

std::unique_ptr<LineReader> reader_for(bool person) {
  const bool terminal =
      person && terminal_of(STDIN_FILENO).interactive && terminal_of(STDOUT_FILENO).interactive;
  std::unique_ptr<LineReader> reader;
  if (terminal)
    reader = editing_reader({.history = history_path(), .complete = complete_chat_command});
  return reader != nullptr ? std::move(reader) : plain_reader(std::cin, person);
}

}  // namespace

void add_answer_flags(const Command& command, AnswerFlags& flags) {
  command.add_option("-n,--max-tokens", flags.max_tokens,
                     "most tokens of an answer, also of each in a chat; 0: no limit, even where "
                     "the cache is endless (default: what the context holds)");
  command.add_option("--system", flags.system, "the system message");
  add_sampling_flags(command, flags.sampling);
  add_engine_flags(command, flags.engine);
  const char* group = "Text";
  command.add_option("--stop", flags.stop, "text that ends the answer (repeatable)")
      .takes_one()
      .in_group(group);
  command
      .add_flag("--allow-loops", flags.allow_loops,
                "go on with an answer that repeats one piece of text again and again (default: "
                "it ends)")
      .in_group(group);
  command
      .add_flag("--raw", flags.raw,
                "no chat template: go on from the prompt as it is; names such as <|im_end|> in it "
                "are special tokens")
      .in_group(group);
  command
      .add_option("--lora", flags.lora,
                  "a low-rank adapter: a GGUF file or a PEFT folder, PATH[:SCALE]")
      .takes(ValueKind::kFile)
      .in_group("Weights in memory");
  add_spec_flag(command, flags.spec);
  add_packed_flags(command, flags.engine);
  add_rank_flags(command, flags.engine);
}

base::Result<Answering> open_answering(const AnswerFlags& flags, const Common& common) {
  if (flags.raw && !flags.system.empty())
    return base::fail("--system needs the chat template that --raw switches off");
  Answering out;
  KVICK_TRY(const engine::KvOptions kv, kv_options(flags.engine));
  KVICK_TRY(const engine::SpecOptions spec, spec_of(flags.spec));
  EngineFlags engine = flags.engine;
  Progress progress = stderr_progress(common.quiet);
  KVICK_TRY(const std::filesystem::path path, find_or_fetch_model(engine.model, progress));
  engine.model = path.string();
  if (!flags.lora.empty()) {
    KVICK_TRY(engine::AdapterOptions adapter, engine::parse_adapter(flags.lora, false));
    engine.adapters.push_back(std::move(adapter));
  }
  KVICK_TRY(out.engine, open_engine(engine, common));
  KVICK_TRY(out.sampling, sampling_of(flags.sampling, out.engine->sampling()));
  out.sampling.bad_words =
      engine::bad_word_tokens(out.engine->tokenizer(), flags.sampling.bad_words);
  KVICK_TRY(out.kv, KvSession::open(*out.engine, kv, spec));
  out.max_tokens = answer_limit(*out.engine, kv, flags.max_tokens);
  return out;
}

int start_chat(Answering& answering, const AnswerFlags& flags, const Common& common) {
  const bool person = isatty(STDIN_FILENO) == 1 && !common.quiet;
  ChatSettings settings;
  settings.sampling = answering.sampling;
  settings.max_tokens = answering.max_tokens;
  if (common.quiet) settings.thoughts = ChatSettings::Thoughts::kHide;
  settings.markdown = person && terminal_of(STDOUT_FILENO).interactive;
  ChatOptions options;
  options.settings = std::move(settings);
  options.stop = flags.stop;
  options.stop_loops = !flags.allow_loops;
  options.system = flags.system;
  options.model = model_name(flags);
  options.raw = flags.raw || !answering.engine->has_chat_template();
  options.quiet = common.quiet;
  options.prompts = person;
  const std::unique_ptr<LineReader> reader = reader_for(person);
  return chat(*answering.engine, *answering.kv, std::move(options), *reader);
}

}  // namespace kvick::cli
