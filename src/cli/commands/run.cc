// kvick run: answers one prompt, or chats.

#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <iterator>
#include <memory>

#include "base/json_depth.h"
#include "base/text_file.h"
#include "cli/chat/answer_printer.h"
#include "cli/commands/answering.h"
#include "cli/commands/commands.h"
#include "cli/models/models.h"
#include "cli/options/print_json.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"
#include "engine/session/session.h"
#include "text/forms/forms.h"
#include "text/grammar/grammar_constraint.h"
#include "text/schema/json_constraint.h"

namespace kvick::cli {
namespace {

using base::fail;
using base::Result;

struct RunFlags {
  AnswerFlags answer;
  std::string prompt, file, schema, grammar, regex;
  std::string first;               // the first word: a model, or the prompt's first word
  std::vector<std::string> words;  // the words of a prompt given without -p
  bool has_prompt = false, ignore_end = false;
};

Result<std::string> read_text(const std::string& path) {
  if (path == "-") return std::string(std::istreambuf_iterator<char>(std::cin), {});
  return base::read_text(path);
}

Result<text::Json> read_schema(const std::string& path) {
  constexpr size_t kMostDepth = 256;
  KVICK_TRY(const std::string text, read_text(path));
  if (base::is_nested_deeper(text, kMostDepth))
    return fail("the schema {} is nested more than {} deep", path, kMostDepth);
  try {
    return text::Json::parse(text);
  } catch (const text::Json::parse_error& error) {
    return fail("the schema {} is not JSON: wrong at byte {}", path, error.byte);
  } catch (const text::Json::exception&) {
    return fail("the schema {} has a number that is too large", path);
  }
}

Result<text::Grammar> text_grammar(const RunFlags& flags, const text::ByteSet& speakable) {
  if (!flags.regex.empty()) {
    auto grammar = text::regex_grammar(flags.regex, speakable);
    if (!grammar.ok()) return fail("--regex: {}", grammar.error().message);
    return grammar;
  }
  KVICK_TRY(const std::string text, read_text(flags.grammar));
  auto grammar = text::gbnf_grammar(text, speakable);
  if (!grammar.ok()) return fail("{}: {}", flags.grammar, grammar.error().message);
  return grammar;
}

// Returns null without --schema, --grammar-file and --regex.
Result<std::shared_ptr<const text::Constraint>> constraint_of(const engine::Engine& engine,
                                                              const RunFlags& flags) {
  if (flags.schema.empty() && flags.grammar.empty() && flags.regex.empty())
    return std::shared_ptr<const text::Constraint>();
  KVICK_TRY(std::shared_ptr<const text::TokenTrie> tokens,
            text::TokenTrie::make(engine.tokenizer()));
  if (flags.schema.empty()) {
    KVICK_TRY(text::Grammar grammar, text_grammar(flags, tokens->speakable()));
    return text::grammar_constraint(std::move(tokens), std::move(grammar));
  }
  KVICK_TRY(const text::Json schema, read_schema(flags.schema));
  auto constraint = text::json_constraint(std::move(tokens), schema);
  if (!constraint.ok()) return fail("{}: {}", flags.schema, constraint.error().message);
  return constraint;
}

Result<std::vector<engine::Token>> prompt_tokens(const engine::Engine& engine,
                                                 const RunFlags& flags, const std::string& text) {
  const bool raw = flags.answer.raw;
  if (raw || !engine.has_chat_template()) return engine.tokenizer().encode(text, true, raw);
  auto messages = nlohmann::ordered_json::array();
  const std::string& system = flags.answer.system;
  if (!system.empty()) messages.push_back({{"role", "system"}, {"content", system}});
  messages.push_back({{"role", "user"}, {"content", text}});
  return engine.chat_tokens(messages);
}

double rate(size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

std::string end_of(const engine::Answer& answer, uint32_t most) {
  if (answer.finish != engine::Finish::kLength)
    return std::string(engine::finish_name(answer.finish));
  if (answer.tokens.size() == most)
    return fmt::format("length: the limit of -n {} is reached", most);
  return "length: the context is full";
}

void print_summary(const engine::Answer& answer, uint32_t most) {
  const uint32_t computed = answer.prompt_tokens - answer.cached_tokens;
  fmt::print(stderr, "\n[prompt {} tokens, {:.0f}/s; answer {} tokens, {:.0f}/s; ended by {}]\n",
             answer.prompt_tokens, rate(computed, answer.prefill_s), answer.tokens.size(),
             rate(answer.tokens.size(), answer.decode_s), end_of(answer, most));
  if (answer.drafted > 0)
    fmt::print(stderr, "[{} of {} draft tokens accepted]\n", answer.accepted, answer.drafted);
}

nlohmann::ordered_json to_json(const engine::Answer& answer, const AnswerPrinter& printer,
                               uint64_t seed) {
  return {{"text", printer.answer()},
          {"reasoning", printer.thoughts()},
          {"tokens", answer.tokens},
          {"finish_reason", engine::finish_name(answer.finish)},
          {"repeats_itself", answer.finish == engine::Finish::kLoop},
          {"prompt_tokens", answer.prompt_tokens},
          {"cached_tokens", answer.cached_tokens},
          {"prefill_s", answer.prefill_s},
          {"decode_s", answer.decode_s},
          {"drafted", answer.drafted},
          {"accepted", answer.accepted},
          {"seed", seed},
          {"peak_rss_bytes", base::peak_rss_bytes()}};
}

// Prints what follows the answer's text: the JSON, or the summary and notes.
void show_end(const engine::Answer& answer, const AnswerPrinter& printer,
              const Answering& answering, const Common& common) {
  if (!common.json) fmt::print("\n");
  if (common.json) print_json(to_json(answer, printer, answering.sampling.seed));
  std::fflush(stdout);
  if (common.quiet) return;
  if (!common.json) print_summary(answer, answering.max_tokens);
  if (!answer.draft_failure.empty())
    fmt::print(stderr, "the rest had no draft tokens: {}\n", answer.draft_failure);
  if (answer.finish == engine::Finish::kLoop) fmt::print(stderr, "{}\n", kLoopNote);
}

Result<int> answer_once(Answering& answering, const RunFlags& flags, const Common& common) {
  const engine::Engine& engine = *answering.engine;
  std::string text = flags.prompt;
  if (!flags.has_prompt) {
    KVICK_TRY(text, read_text(flags.file));
  }
  engine::Request request;
  KVICK_TRY(request.prompt, prompt_tokens(engine, flags, text));
  KVICK_TRY(request.constraint, constraint_of(engine, flags));
  request.max_tokens = answering.max_tokens;
  request.sampling = answering.sampling;
  request.stop = flags.answer.stop;
  request.ignore_end = flags.ignore_end;
  request.stop_loops = !flags.answer.allow_loops;
  request.continues = flags.answer.raw || !engine.has_chat_template();
  // A constrained answer has no thoughts.
  const bool plain = request.continues || request.constraint != nullptr;
  request.special_text = !plain && engine.marks_are_special();
  AnswerPrinter printer(
      engine, request.prompt,
      {.raw = plain,
       .silent = common.json,
       .thoughts = common.quiet ? ChatSettings::Thoughts::kHide : ChatSettings::Thoughts::kShow});
  const InterruptGuard guard;
  request.on_text = [&](std::string_view piece) {
    printer.add(piece);
    return !InterruptGuard::interrupted();
  };
  Progress progress = stderr_progress(common.quiet || common.json);
  bool started = false;
  request.on_prefill = [&](uint32_t done, uint32_t total) {
    // A prompt of one chunk takes too little time for a progress line.
    if (total <= engine::Session::kPrefillChunk) return;
    if (!started) progress.start("reading the prompt", Unit::kTokens, total);
    started = true;
    progress.update(done);
    if (done == total) progress.finish();
  };
  KVICK_TRY(const engine::Answer answer, answering.kv->session().generate(request));
  printer.finish(answer.finish == engine::Finish::kEnd);
  show_end(answer, printer, answering, common);
  return answer.finish == engine::Finish::kCancelled ? 130 : 0;
}

// Splits the words of the command line: the first is the model if it names one, and the rest is the
// prompt.
base::Status<> take_words(RunFlags& flags) {
  if (flags.first.empty() && flags.words.empty()) return base::Done{};
  const std::string& first = flags.first;
  const bool one_word = first.find_first_of(" \n\t") == std::string::npos;
  if (flags.answer.engine.model.empty() && names_model(first)) {
    flags.answer.engine.model = first;
  } else {
    const std::string meant =
        flags.answer.engine.model.empty() && one_word && flags.words.size() < 2
            ? likely_model(first)
            : std::string();
    if (!meant.empty())
      return fail("there is no model '{0}'; did you mean '{1}'? (if it is the prompt: -p {0})",
                  first, meant);
    flags.words.insert(flags.words.begin(), first);
  }
  if (flags.words.empty()) return base::Done{};
  if (flags.has_prompt || !flags.file.empty())
    return fail("PROMPT and {} cannot be given together", flags.has_prompt ? "--prompt" : "--file");
  flags.prompt = fmt::format("{}", fmt::join(flags.words, " "));
  flags.has_prompt = true;
  return base::Done{};
}

Result<int> run(RunFlags& flags, const Common& common) {
  KVICK_TRY_VOID(take_words(flags));
  const bool interactive = !flags.has_prompt && flags.file.empty();
  if (interactive && common.json)
    return fail("--json needs a prompt (-p TEXT or -f FILE); a chat has no single answer");
  for (const auto& [name, form] : {std::pair("--schema", &flags.schema),
                                   {"--grammar-file", &flags.grammar},
                                   {"--regex", &flags.regex}}) {
    if (interactive && !form->empty()) return fail("{} needs a prompt (-p TEXT or -f FILE)", name);
    if (*form == "-" && flags.file == "-" && form != &flags.regex)
      return fail("{} and --file cannot both be standard input", name);
  }
  KVICK_TRY(Answering answering, open_answering(flags.answer, common));
  if (interactive) return start_chat(answering, flags.answer, common);
  return answer_once(answering, flags, common);
}

void add_form_flags(const Command& command, const Option& ignore_end, RunFlags& flags) {
  const char* group = "Text";
  Option schema = command.add_option("--schema", flags.schema,
                                     "a file with a JSON Schema that the answer matches; "
                                     "{\"type\": \"object\"} allows any object");
  schema.takes(ValueKind::kFile).excludes(ignore_end).in_group(group);
  Option grammar = command.add_option(
      "--grammar-file", flags.grammar,
      "a file with a GBNF grammar, as in llama.cpp: the answer matches its rule root");
  grammar.takes(ValueKind::kFile).excludes(ignore_end).excludes(schema).in_group(group);
  command
      .add_option(
          "--regex", flags.regex,
          "a regular expression that the whole answer matches, in the syntax of Python's re")
      .excludes(ignore_end)
      .excludes(schema)
      .excludes(grammar)
      .in_group(group);
}

}  // namespace

void add_run(const Command& app, const Common& common) {
  const Command command = app.add_command("run",
                                          "answer a prompt, or chat when none is given\nkvick run "
                                          "MODEL \"Why is the sky blue?\"");
  auto flags = std::make_shared<RunFlags>();
  command
      .add_option(
          "MODEL", flags->first,
          "the model, as for -m; it is fetched if kvick pull knows its name (default: smollm2)")
      .takes(ValueKind::kModel);
  command.add_option("PROMPT", flags->words, "the prompt; without it or -p or -f: a chat");
  const Option prompt = command.add_option("-p,--prompt", flags->prompt, "the prompt");
  command.add_option("-f,--file", flags->file, "read the prompt from a file; - is standard input")
      .takes(ValueKind::kFile)
      .excludes(prompt);
  add_answer_flags(command, flags->answer);
  const Option ignore_end =
      command.add_flag("--ignore-eos", flags->ignore_end, "go on past the model's end of text")
          .in_group("Text");
  add_form_flags(command, ignore_end, *flags);
  command.runs([&common, flags, prompt] {
    flags->has_prompt = prompt.given();
    return run(*flags, common);
  });
}

}  // namespace kvick::cli
