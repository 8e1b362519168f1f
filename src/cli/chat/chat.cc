#include "cli/chat/chat.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <unistd.h>
#include <utility>

#include "cli/chat/answer_printer.h"
#include "cli/chat/chat_commands.h"
#include "cli/chat/conversation.h"
#include "cli/chat/message_lines.h"
#include "cli/options/engine_options.h"
#include "cli/terminal/interrupt.h"
#include "cli/terminal/progress.h"

namespace kvick::cli {
namespace {

using base::Done;
using base::Status;

// A store without an end reports more tokens than this.
constexpr uint32_t kEndless = UINT32_MAX / 2;

std::string bytes_text(uint64_t bytes) {
  return amount_text(static_cast<double>(bytes), Unit::kBytes);
}

class Chat {
 public:
  Chat(engine::Engine& engine, KvSession& kv, ChatOptions options)
      : engine_(engine), kv_(kv), options_(std::move(options)), system_(options_.system) {
    clear();
  }

  int run(LineReader& in) {
    if (options_.prompts) fmt::print(stderr, "{}: /help lists commands\n", options_.model);
    while (!left_) {
      const auto message = read_message(in);
      if (!message) break;
      if (message->empty()) continue;
      in.remember(*message);
      take(*message);
    }
    return status_;
  }

 private:
  std::optional<std::string> read_message(LineReader& in) const {
    MessageLines lines(options_.prompts);
    while (true) {
      const auto line = in.read(lines.begun() ? ". " : "> ");
      if (!line) return lines.finish();
      if (in.cleared())  // Ctrl-C also drops the lines before
        lines = MessageLines(options_.prompts);
      else if (auto message = lines.add(*line))
        return message;
    }
  }

  void take(const std::string& line) {
    const ChatCommand* command = line.starts_with('/') ? find_chat_command(line) : nullptr;
    if (command != nullptr) {
      if (const auto done = act(command->action, std::string(arguments_of(line))); !done.ok())
        say(done.error().message);
      return;
    }
    // Only a typed line can be a mistyped command: through a pipe, a message may begin with a
    // slash.
    const std::string_view meant =
        options_.prompts && line.starts_with('/') ? likely_chat_command(line) : "";
    if (!meant.empty())
      return say(
          fmt::format("there is no {}; did you mean {}?", line.substr(0, line.find(' ')), meant));
    answer(line);
  }

  Status<> act(ChatAction action, const std::string& arguments) {
    switch (action) {
      case ChatAction::kHelp:
        fmt::print(stderr, "{}", chat_help());
        return Done{};
      case ChatAction::kSet:
        return set(arguments);
      case ChatAction::kSystem:
        return set_system(arguments);
      case ChatAction::kSave:
        return save(arguments);
      case ChatAction::kLoad:
        return load(arguments);
      case ChatAction::kKv:
        return arguments.empty() ? show_cache() : change_cache(arguments);
      case ChatAction::kStats:
        return show_last();
      case ChatAction::kClear:
        clear();
        say("the conversation is forgotten");
        return Done{};
      case ChatAction::kRetry:
        return retry();
      case ChatAction::kBye:
        left_ = true;
        return Done{};
    }
    return Done{};
  }

  Status<> show_last() const {
    say(fmt::format("last turn: {} prompt tokens, {} of them from the cache, {} generated",
                    last_.prompt_tokens, last_.cached_tokens, last_.tokens.size()));
    return Done{};
  }

  static void say(const std::string& note) { fmt::print(stderr, "({})\n", note); }

  void clear() {
    messages_ = nlohmann::ordered_json::array();
    history_.clear();
    turn_begins_ = 0;
    last_message_.clear();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }

  Status<> set(const std::string& arguments) {
    if (arguments.empty()) {
      fmt::print(stderr, "{}", chat_settings_text(options_.settings));
      return Done{};
    }
    const size_t space = arguments.find(' ');
    if (space == std::string::npos) return base::fail("/set {} needs a value", arguments);
    return set_chat_setting(options_.settings, arguments.substr(0, space), arguments_of(arguments),
                            engine_.model().config().vocab);
  }

  Status<> set_system(const std::string& text) {
    if (options_.raw) return base::fail("the model has no chat template, or --raw leaves it out");
    if (text.empty()) {
      say(system_.empty() ? "there is no system message" : system_);
      return Done{};
    }
    system_ = text;
    const bool had = !messages_.empty() && messages_.front()["role"] == "system";
    if (had) messages_.erase(0);
    const nlohmann::ordered_json message = {{"role", "system"}, {"content", text}};
    messages_.insert(messages_.begin(), message);
    return Done{};
  }

  Status<> save(const std::string& file) {
    if (file.empty()) return base::fail("/save needs a file");
    if (options_.raw)
      return base::fail("there are no messages to save: the chat runs without a chat template");
    KVICK_TRY_VOID(write_conversation(file, options_.model, messages_));
    say(fmt::format("{} messages are in {}", messages_.size(), file));
    return Done{};
  }

  Status<> load(const std::string& file) {
    if (file.empty()) return base::fail("/load needs a file");
    if (options_.raw)
      return base::fail("messages cannot be loaded: the chat runs without a chat template");
    KVICK_TRY(auto messages, read_conversation(file));
    std::vector<engine::Token> history;  // for /kv; the next answer computes its rows
    if (!messages.empty()) {
      KVICK_TRY(history, engine_.chat_tokens(messages, {}, engine::ChatEnd::kTurn));
    }
    messages_ = std::move(messages);
    history_ = std::move(history);
    const bool has_system = !messages_.empty() && messages_.front()["role"] == "system";
    system_ = has_system ? messages_.front()["content"].get<std::string>() : "";
    say(fmt::format("{} messages from {}", messages_.size(), file));
    return Done{};
  }

  Status<> show_cache() {
    const engine::KvOptions kv = engine_.resolved(kv_.kv());
    const kv::Usage usage = kv_.store().usage();
    say(fmt::format("{}, {}: {}, {} used, {} allocated", kv.spec.name, engine::kv_type_text(kv),
                    context_text(), bytes_text(usage.used_bytes),
                    bytes_text(usage.allocated_bytes)));
    return Done{};
  }

  Status<> change_cache(const std::string& arguments) {
    const size_t space = std::min(arguments.find(' '), arguments.size());
    KVICK_TRY(const engine::KvOptions given,
              engine::parse_kv_options(arguments.substr(0, space), arguments_of(arguments)));
    engine::KvOptions kv = kv_.kv();
    kv.spec = given.spec;
    if (given.names_types()) kv.take_types(given);
    if (given.state_type) kv.state_type = given.state_type;
    KVICK_TRY_VOID(kv_.change(kv));
    clear();
    return show_cache();
  }

  Status<> retry() {
    auto messages = messages_;
    std::string message = last_message_;
    if (!options_.raw) {
      const auto is_last = [&](const char* role) {
        return !messages.empty() && messages.back()["role"] == role;
      };
      if (is_last("assistant")) messages.erase(messages.size() - 1);
      if (!is_last("user")) return base::fail("there is no message to answer once more");
      message = messages.back()["content"].get<std::string>();
      messages.erase(messages.size() - 1);
    }
    if (message.empty()) return base::fail("there is no message to answer once more");
    auto history = history_;
    history.resize(std::min(turn_begins_, history.size()));
    std::swap(messages, messages_);
    std::swap(history, history_);
    ++options_.settings.sampling.seed;  // the same seed would give the same answer
    if (answer(message)) return Done{};
    messages_ = std::move(messages);  // keeps the turn, since there is no new answer
    history_ = std::move(history);
    return Done{};
  }

  base::Result<std::vector<engine::Token>> prompt_for(const std::string& message) {
    if (options_.raw) {
      const auto more = engine_.tokenizer().encode(message, history_.empty(), false);
      std::vector<engine::Token> prompt = history_;
      prompt.insert(prompt.end(), more.begin(), more.end());
      return prompt;
    }
    auto messages = messages_;
    messages.push_back({{"role", "user"}, {"content", message}});
    return engine_.chat_tokens(messages);
  }

  base::Result<engine::Request> request_for(const std::string& message) {
    engine::Request request;
    KVICK_TRY(request.prompt, prompt_for(message));
    request.max_tokens = options_.settings.max_tokens;
    request.sampling = options_.settings.sampling;
    request.stop = options_.stop;
    request.stop_loops = options_.stop_loops;
    request.continues = options_.raw;
    request.special_text = !options_.raw && engine_.marks_are_special();
    return request;
  }

  // Answers the message and returns true. On an error it prints the reason, leaves the conversation
  // unchanged and returns false.
  bool answer(const std::string& message) {
    auto request = request_for(message);
    if (!request.ok()) {
      status_ = refuse(request.error());
      return false;
    }
    AnswerPrinter printer(engine_, request->prompt,
                          {.raw = options_.raw,
                           .silent = false,
                           .thoughts = options_.settings.thoughts,
                           .markdown = options_.settings.markdown});
    const InterruptGuard guard;
    request->on_text = [&printer](std::string_view text) {
      printer.add(text);
      return !InterruptGuard::interrupted();
    };
    auto answered = kv_.session().generate(*request);
    if (!answered.ok()) {
      status_ = refuse(answered.error());
      if (request->prompt.size() >= kv_.store().most_tokens() && !history_.empty())
        say("the prompt is the whole conversation; /clear makes room");
      return false;
    }
    last_ = std::move(answered).value();
    printer.finish(last_.finish == engine::Finish::kEnd);
    fmt::print("\n");
    std::fflush(stdout);
    keep(message, std::move(request->prompt), printer);
    if (!last_.draft_failure.empty() && !options_.quiet)
      say(fmt::format("the rest had no draft tokens: {}", last_.draft_failure));
    if (last_.finish == engine::Finish::kLoop && !options_.quiet) say(kLoopNote);
    if (options_.prompts) show_turn();
    return true;
  }

  void keep(const std::string& message, std::vector<engine::Token> prompt,
            const AnswerPrinter& printer) {
    turn_begins_ = history_.size();
    last_message_ = message;
    history_ = std::move(prompt);
    history_.insert(history_.end(), last_.tokens.begin(), last_.tokens.end());
    messages_.push_back({{"role", "user"}, {"content", message}});
    messages_.push_back({{"role", "assistant"}, {"content", printer.answer()}});
    // The chat template decides what becomes of earlier thoughts. Most templates leave them out.
    if (!printer.thoughts().empty()) messages_.back()["reasoning_content"] = printer.thoughts();
  }

  std::string context_text() const {
    const uint32_t most = kv_.store().most_tokens();
    if (most > kEndless) return fmt::format("{} tokens", history_.size());
    return fmt::format("{} of {} tokens", history_.size(), most);
  }

  // Prints a dim line with the speed of the answer and how full the context is.
  void show_turn() const {
    const bool colours = isatty(STDERR_FILENO) == 1;
    const double rate =
        last_.decode_s > 0 ? static_cast<double>(last_.tokens.size()) / last_.decode_s : 0;
    const char* end = "";
    if (last_.finish == engine::Finish::kCancelled) end = "; stopped";
    if (last_.finish == engine::Finish::kLength)
      end = last_.tokens.size() == options_.settings.max_tokens
                ? "; ended by max_tokens"
                : "; the context is full, /clear makes room";
    fmt::print(stderr, "{}[{} tokens, {:.0f}/s; cache {}, {}{}]{}\n", colours ? "\033[2m" : "",
               last_.tokens.size(), rate, context_text(),
               bytes_text(kv_.store().usage().allocated_bytes), end, colours ? "\033[0m" : "");
  }

  engine::Engine& engine_;
  KvSession& kv_;
  ChatOptions options_;
  std::string system_;
  nlohmann::ordered_json messages_;
  std::vector<engine::Token> history_;
  size_t turn_begins_ = 0;  // tokens of history_ before the last message; only without a template
  std::string last_message_;
  engine::Answer last_;
  int status_ = 0;
  bool left_ = false;
};

}  // namespace

int chat(engine::Engine& engine, KvSession& kv, ChatOptions options, LineReader& in) {
  return Chat(engine, kv, std::move(options)).run(in);
}

}  // namespace kvick::cli
