#pragma once

#include <cstdint>
#include <istream>
#include <string>

#include "engine/session/session.h"

namespace kvick::cli {

struct ChatOptions {
  engine::Sampling sampling;
  uint32_t max_tokens = 0;  // of one answer
  std::vector<std::string> stop;
  std::string system;
  bool raw = false;      // no chat template: each line goes on from all that came before
  bool prompts = true;   // show "> " and notes (a person is typing)
  bool thoughts = true;  // show what the model thinks, on stderr
};

// Reads turns from `in` until its end or /exit and answers each on stdout, with the whole
// conversation in mind. Returns the exit status.
int chat(engine::Engine& engine, engine::Session& session, const ChatOptions& options,
         std::istream& in);

}  // namespace kvick::cli
