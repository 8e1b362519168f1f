#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/chat/chat_settings.h"
#include "cli/chat/kv_session.h"
#include "cli/terminal/line_reader.h"

namespace kvick::cli {

struct ChatOptions {
  ChatSettings settings;
  std::vector<std::string> stop;
  bool stop_loops = true;  // an answer that repeats itself ends
  std::string system;
  std::string model;     // its name, for the files that /save writes
  bool raw = false;      // no chat template: each line continues the text so far
  bool quiet = false;    // no notes on stderr
  bool prompts = false;  // a person is typing: show "> ", notes and blocks of """
};

// Reads messages from `in` until its end or /bye, and answers each on stdout with the whole
// conversation as context. Returns the exit status.
int chat(engine::Engine& engine, KvSession& kv, ChatOptions options, LineReader& in);

// Returns the commands that begin with the text, and the settings of /set that do, for completion.
std::vector<std::string> complete_chat_command(std::string_view before);

}  // namespace kvick::cli
