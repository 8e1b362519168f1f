#pragma once
// The options of every command that runs a model, and opening the model.

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cli/options/command.h"
#include "cli/options/command_line.h"
#include "engine/core/engine.h"
#include "model/ranks/wire_format.h"

namespace kvick::cli {

struct EngineFlags {
  std::string model;
  unsigned threads = 0;
  bool ranks = false, pipeline = false;
  double rank_seconds = 30;
  model::WireFormat rank_format = model::WireFormat::kF32;
  std::string kv, kv_type, kv_tier, kv_select;
  uint32_t context = 0;
  uint64_t kv_memory = 0;
  engine::Attention attention = engine::Attention::kFused;
  engine::PromptArithmetic prompt_arithmetic = engine::PromptArithmetic::kAuto;
  bool fingerprint = false;  // not an option; set by commands that keep rows in files
  engine::FloatActivations float_activations = engine::FloatActivations::kAuto;
  // Where packed weights are kept: auto, off or a folder. Commands without the option read a model
  // only once.
  std::string packed = "off";
  uint64_t packed_size = 0;
  uint64_t expert_memory = 0;  // 0: all experts are in memory
  std::vector<engine::AdapterOptions> adapters = {};
  bool encoders = false;  // not an option; set by commands that accept encoder models
  // Not an option. Once *given_up is true, loading ends with an exception. Null: never.
  const std::atomic<bool>* given_up = nullptr;
  // Not an option. If set, it receives the lines that would go to stderr, and there is no progress
  // bar.
  std::function<void(const std::string&)> says = {};
};

// Adds -m and --threads only.
void add_model_flags(const Command& command, EngineFlags& flags);
// Adds the model flags and those of the cache. strategy: the command's default for --kv; empty: the
// first strategy of the table.
void add_engine_flags(const Command& command, EngineFlags& flags, std::string_view strategy = {});
// Adds --packed and its size, for commands that run the same model repeatedly.
void add_packed_flags(const Command& command, EngineFlags& flags);
// Adds --rank-activations, the type in which ranks send their sums.
Option add_rank_activations(const Command& command, EngineFlags& flags);
// Adds the flags that run one model in several processes.
void add_rank_flags(const Command& command, EngineFlags& flags);

// Returns the cache options of the flags.
base::Result<engine::KvOptions> kv_options(const EngineFlags& flags);
// Returns which type --kv-type auto has chosen, and why.
std::string auto_note(const engine::ChosenType& chosen);
// Loads the model, with a progress bar unless quiet.
base::Result<std::unique_ptr<engine::Engine>> open_engine(const EngineFlags& flags,
                                                          const Common& common);

// Prints "kvick: MESSAGE" on stderr and returns 2.
int refuse(const base::Error& error);

}  // namespace kvick::cli
