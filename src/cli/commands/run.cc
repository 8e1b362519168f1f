// kvick run: an answer to one prompt, or a chat.

#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <unistd.h>

#include "cli/commands/answer_printer.h"
#include "cli/commands/chat.h"
#include "cli/commands/commands.h"
#include "cli/models/models.h"
#include "cli/options/engine_options.h"
#include "cli/options/sampling_flags.h"
#include "cli/options/spec_flag.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "engine/session/session.h"
#include "text/schema/json_constraint.h"

namespace kvick::cli {
namespace {

using base::fail;
using base::Result;

struct RunFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string prompt, file, system, schema, spec;
  std::vector<std::string> words;  // the prompt without -p
  std::vector<std::string> stop;
  uint32_t max_tokens = 512;
  bool has_prompt = false, raw = false, ignore_end = false;
};

Result<std::string> read_text(const std::string& path) {
  std::string text;
  if (path == "-") {
    text.assign(std::istreambuf_iterator<char>(std::cin), {});
    return text;
  }
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail("cannot read {}", path);
  text.assign(std::istreambuf_iterator<char>(in), {});
  if (in.bad()) return fail("cannot read {}: it is not a readable file", path);
  return text;
}

Result<text::Json> read_schema(const std::string& path) {
  KVICK_TRY(const std::string text, read_text(path));
  try {
    return text::Json::parse(text);
  } catch (const text::Json::parse_error& error) {
    return fail("the schema {} is not JSON: wrong at byte {}", path, error.byte);
  }
}

// Null without --schema.
Result<std::shared_ptr<const text::Constraint>> constraint_of(const engine::Engine& engine,
                                                              const RunFlags& flags) {
  if (flags.schema.empty()) return std::shared_ptr<const text::Constraint>();
  KVICK_TRY(const text::Json schema, read_schema(flags.schema));
  KVICK_TRY(std::shared_ptr<const text::TokenTrie> tokens,
            text::TokenTrie::make(engine.tokenizer()));
  auto constraint = text::json_constraint(std::move(tokens), schema);
  if (!constraint.ok()) return fail("{}: {}", flags.schema, constraint.error().message);
  return constraint;
}

Result<std::vector<engine::Token>> prompt_tokens(const engine::Engine& engine,
                                                 const RunFlags& flags, const std::string& text) {
  if (flags.raw || !engine.has_chat_template())
    return engine.tokenizer().encode(text, true, flags.raw);
  auto messages = nlohmann::ordered_json::array();
  if (!flags.system.empty()) messages.push_back({{"role", "system"}, {"content", flags.system}});
  messages.push_back({{"role", "user"}, {"content", text}});
  return engine.chat_tokens(messages);
}

double rate(size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

std::string end_of(const engine::Answer& answer, uint32_t most) {
  if (answer.finish != engine::Finish::kLength)
    return std::string(engine::finish_name(answer.finish));
  if (answer.tokens.size() == most) return fmt::format("length, which -n {} allows", most);
  return "length: the context is full";
}

void print_summary(const engine::Answer& answer, uint32_t most) {
  const uint32_t computed = answer.prompt_tokens - answer.cached_tokens;
  fmt::print(stderr, "\n[prompt {} tokens, {:.0f}/s; answer {} tokens, {:.0f}/s; ended by {}]\n",
             answer.prompt_tokens, rate(computed, answer.prefill_s), answer.tokens.size(),
             rate(answer.tokens.size(), answer.decode_s), end_of(answer, most));
  if (answer.drafted > 0)
    fmt::print(stderr, "[{} of {} drafts came true]\n", answer.accepted, answer.drafted);
}

nlohmann::ordered_json to_json(const engine::Answer& answer, const AnswerPrinter& printer,
                               uint64_t seed) {
  return {{"text", printer.answer()},
          {"reasoning", printer.thoughts()},
          {"tokens", answer.tokens},
          {"finish_reason", engine::finish_name(answer.finish)},
          {"prompt_tokens", answer.prompt_tokens},
          {"cached_tokens", answer.cached_tokens},
          {"prefill_s", answer.prefill_s},
          {"decode_s", answer.decode_s},
          {"drafted", answer.drafted},
          {"accepted", answer.accepted},
          {"seed", seed},
          {"peak_rss_bytes", base::peak_rss_bytes()}};
}

Result<int> answer_once(engine::Engine& engine, engine::Session& session, const RunFlags& flags,
                        const Common& common, const engine::Sampling& sampling) {
  std::string text = flags.prompt;
  if (!flags.has_prompt) {
    KVICK_TRY(text, read_text(flags.file));
  }
  engine::Request request;
  KVICK_TRY(request.prompt, prompt_tokens(engine, flags, text));
  KVICK_TRY(request.constraint, constraint_of(engine, flags));
  request.max_tokens = flags.max_tokens;
  request.sampling = sampling;
  request.stop = flags.stop;
  request.ignore_end = flags.ignore_end;
  request.continues = flags.raw || !engine.has_chat_template();
  // An answer that is held to a form has no thoughts.
  const bool plain = request.continues || request.constraint != nullptr;
  request.special_text = !plain && engine.marks_are_special();
  AnswerPrinter printer(engine, request.prompt,
                        {.raw = plain, .silent = common.json, .thoughts = !common.quiet});
  const InterruptGuard guard;
  request.on_text = [&](std::string_view piece) {
    printer.add(piece);
    return !InterruptGuard::interrupted();
  };
  Progress progress = stderr_progress(common.quiet || common.json);
  bool started = false;
  request.on_prefill = [&](uint32_t done, uint32_t total) {
    // A prompt of one chunk is read in a blink.
    if (total <= engine::Session::kPrefillChunk) return;
    if (!started) progress.start("reading the prompt", Unit::kTokens, total);
    started = true;
    progress.update(done);
    if (done == total) progress.finish();
  };
  KVICK_TRY(const engine::Answer answer, session.generate(request));
  printer.finish(answer.finish == engine::Finish::kEnd);
  if (common.json) {
    fmt::print("{}\n", to_json(answer, printer, sampling.seed)
                           .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    fmt::print("\n");
    std::fflush(stdout);
    if (!common.quiet) print_summary(answer, flags.max_tokens);
  }
  return answer.finish == engine::Finish::kCancelled ? 130 : 0;
}

// Words without -p become the prompt; but a model's name alone is more likely meant for -m.
base::Status<> take_words(RunFlags& flags) {
  if (flags.words.empty()) return base::Done{};
  const std::string& first = flags.words.front();
  if (flags.words.size() == 1 && flags.engine.model.empty() && names_model(first))
    return fail("'{0}' is a model: kvick run -m {0} \"a prompt\", or -p {0} if that is the prompt",
                first);
  flags.prompt = fmt::format("{}", fmt::join(flags.words, " "));
  flags.has_prompt = true;
  return base::Done{};
}

Result<int> run(RunFlags& flags, const Common& common) {
  KVICK_TRY_VOID(take_words(flags));
  const bool interactive = !flags.has_prompt && flags.file.empty();
  if (interactive && common.json)
    return fail("--json needs a prompt (-p TEXT or -f FILE); a chat has no single answer");
  if (interactive && !flags.schema.empty())
    return fail("--schema needs a prompt (-p TEXT or -f FILE)");
  if (flags.schema == "-" && flags.file == "-")
    return fail("--schema and --file cannot both be standard input");
  if (flags.raw && !flags.system.empty())
    return fail("--system needs the chat template that --raw switches off");
  KVICK_TRY(const engine::Sampling sampling, sampling_of(flags.sampling));
  KVICK_TRY(const engine::KvOptions kv, kv_options(flags.engine));
  KVICK_TRY(const engine::SpecOptions spec, spec_of(flags.spec));
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags.engine, common));
  KVICK_TRY(const std::unique_ptr<kv::Store> store, engine->make_store(kv));
  engine::Session session(*engine, *store);
  session.set_prompt_role(engine->prompt_role(kv));
  KVICK_TRY_VOID(session.speculate(spec));
  if (!interactive) return answer_once(*engine, session, flags, common, sampling);
  ChatOptions options = {.sampling = sampling,
                         .max_tokens = flags.max_tokens,
                         .stop = flags.stop,
                         .system = flags.system,
                         .raw = flags.raw || !engine->has_chat_template(),
                         .prompts = isatty(STDIN_FILENO) == 1 && !common.quiet,
                         .thoughts = !common.quiet};
  return chat(*engine, session, options, std::cin);
}

}  // namespace

void add_run(const Command& app, const Common& common) {
  const Command command = app.add_command("run", "answer a prompt, or chat when none is given");
  auto flags = std::make_shared<RunFlags>();
  add_engine_flags(command, flags->engine);
  add_packed_flags(command, flags->engine);
  add_rank_flags(command, flags->engine);
  add_spec_flag(command, flags->spec);
  const Option words =
      command.add_option("text", flags->words, "the prompt: kvick run \"What is gravity?\"");
  const Option prompt =
      command.add_option("-p,--prompt", flags->prompt, "the prompt").excludes(words);
  command.add_option("-f,--file", flags->file, "read the prompt from a file; - is standard input")
      .excludes(prompt)
      .excludes(words);
  command
      .add_option("-n,--max-tokens", flags->max_tokens,
                  "most tokens of an answer, also of each in a chat; 0: until the model ends it or "
                  "the context is full")
      .shows_default();
  command.add_option("--system", flags->system, "the system message");
  command.add_option("--stop", flags->stop, "text that ends the answer (repeatable)").takes_one();
  command.add_flag(
      "--raw", flags->raw,
      "no chat template: go on from the prompt as it is; names such as <|im_end|> in it "
      "are special tokens");
  const Option ignore_end =
      command.add_flag("--ignore-eos", flags->ignore_end, "go on past the model's end of text");
  command
      .add_option("--schema", flags->schema,
                  "a file with a JSON Schema: the answer is an instance of it; {\"type\": "
                  "\"object\"} is any object")
      .excludes(ignore_end);
  add_sampling_flags(command, flags->sampling);
  command.runs([&common, flags, prompt] {
    flags->has_prompt = prompt.given();
    return run(*flags, common);
  });
}

}  // namespace kvick::cli
