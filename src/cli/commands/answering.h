#pragma once
// What kvick run and kvick chat share: the flags of an answer, and a model that is ready to give
// one.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/chat/kv_session.h"
#include "cli/options/engine_options.h"
#include "cli/options/sampling_flags.h"

namespace kvick::cli {

struct AnswerFlags {
  EngineFlags engine;
  SamplingFlags sampling;
  std::string system, spec;
  std::string lora;  // PATH[:SCALE]; empty: none
  std::vector<std::string> stop;
  std::optional<uint32_t> max_tokens;
  bool raw = false, allow_loops = false;
};

void add_answer_flags(const Command& command, AnswerFlags& flags);

struct Answering {
  std::unique_ptr<engine::Engine> engine;
  std::unique_ptr<KvSession> kv;
  engine::Sampling sampling;
  uint32_t max_tokens = 0;  // of an answer; without -n limited by the context only
};

// Fetches the model if it is named and not there, and opens it.
base::Result<Answering> open_answering(const AnswerFlags& flags, const Common& common);

// Chats with whoever is at stdin. Returns the exit status.
int start_chat(Answering& answering, const AnswerFlags& flags, const Common& common);

}  // namespace kvick::cli
