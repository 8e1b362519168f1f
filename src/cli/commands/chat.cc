#include "cli/commands/chat.h"

#include <cstdio>
#include <fmt/format.h>

#include "cli/commands/answer_printer.h"
#include "cli/options/engine_options.h"
#include "cli/terminal/interrupt.h"

namespace kvick::cli {
namespace {

constexpr const char* kHelp =
    "Type a message and press Enter; end a line with \\ to go on in the next.\n"
    "/clear forgets the conversation, /stats shows what it holds, /exit or Ctrl-D leaves.\n"
    "Ctrl-C stops an answer.\n";

class Chat {
 public:
  Chat(engine::Engine& engine, engine::Session& session, const ChatOptions& options)
      : engine_(engine), session_(session), options_(options) {
    clear();
  }

  int run(std::istream& in) {
    if (options_.prompts) fmt::print(stderr, "{}", kHelp);
    std::string line;
    while (read_message(in, line)) {
      if (line.empty()) continue;
      if (line == "/exit" || line == "/quit") break;
      if (line.starts_with('/') && command(line)) continue;
      answer(line);
    }
    return status_;
  }

 private:
  void clear() {
    messages_ = nlohmann::ordered_json::array();
    history_.clear();
    if (!options_.system.empty())
      messages_.push_back({{"role", "system"}, {"content", options_.system}});
  }

  bool read_message(std::istream& in, std::string& message) const {
    message.clear();
    std::string line;
    const char* prompt = "> ";
    while (true) {
      if (options_.prompts) {
        fmt::print("{}", prompt);
        std::fflush(stdout);
      }
      if (!std::getline(in, line)) {
        if (options_.prompts) fmt::print("\n");
        return !message.empty();
      }
      if (!line.ends_with('\\')) break;
      message += line.substr(0, line.size() - 1) + "\n";
      prompt = ". ";
    }
    message += line;
    return true;
  }

  bool command(const std::string& line) {
    if (line == "/help") {
      fmt::print(stderr, "{}", kHelp);
    } else if (line == "/clear") {
      clear();
      fmt::print(stderr, "(the conversation is forgotten)\n");
    } else if (line == "/stats") {
      fmt::print(stderr, "(last turn: {} prompt tokens, {} of them from the cache, {} generated)\n",
                 last_.prompt_tokens, last_.cached_tokens, last_.tokens.size());
    } else {
      return false;  // a message that happens to begin with a slash
    }
    return true;
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

  void answer(const std::string& message) {
    auto prompt = prompt_for(message);
    if (!prompt.ok()) {
      status_ = refuse(prompt.error());
      return;
    }
    engine::Request request;
    request.prompt = std::move(prompt).value();
    request.max_tokens = options_.max_tokens;
    request.sampling = options_.sampling;
    request.stop = options_.stop;
    request.continues = options_.raw;
    request.special_text = !options_.raw && engine_.marks_are_special();
    AnswerPrinter printer(engine_, request.prompt,
                          {.raw = options_.raw, .thoughts = options_.thoughts});
    const InterruptGuard guard;
    request.on_text = [&printer](std::string_view text) {
      printer.add(text);
      return !InterruptGuard::interrupted();
    };
    auto answered = session_.generate(request);
    if (!answered.ok()) {
      status_ = refuse(answered.error());
      return;
    }
    last_ = std::move(answered).value();
    printer.finish(last_.finish == engine::Finish::kEnd);
    fmt::print("\n");
    std::fflush(stdout);
    history_ = std::move(request.prompt);
    history_.insert(history_.end(), last_.tokens.begin(), last_.tokens.end());
    messages_.push_back({{"role", "user"}, {"content", message}});
    messages_.push_back({{"role", "assistant"}, {"content", printer.answer()}});
    // What templates make of earlier thoughts is theirs: most leave them out.
    if (!printer.thoughts().empty()) messages_.back()["reasoning_content"] = printer.thoughts();
  }

  engine::Engine& engine_;
  engine::Session& session_;
  const ChatOptions& options_;
  nlohmann::ordered_json messages_;
  std::vector<engine::Token> history_;
  engine::Answer last_;
  int status_ = 0;
};

}  // namespace

int chat(engine::Engine& engine, engine::Session& session, const ChatOptions& options,
         std::istream& in) {
  return Chat(engine, session, options).run(in);
}

}  // namespace kvick::cli
