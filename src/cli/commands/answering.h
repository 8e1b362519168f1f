#pragma once
// What kvick run and kvick chat share: the flags of an answer, and opening a model.

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
  uint32_t max_tokens = 0;  // of an answer; without -n only the context limits it
};

// Opens the model, fetching it first if it is named but not in the cache.
base::Result<Answering> open_answering(const AnswerFlags& flags, const Common& common);

// Runs a chat on stdin. Returns the exit status.
int start_chat(Answering& answering, const AnswerFlags& flags, const Common& common);

}  // namespace kvick::cli
