#pragma once
// What every command that runs a model takes, and how it opens one.

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
  bool fingerprint = false;  // no option: commands that keep files of rows set it
  engine::FloatActivations float_activations = engine::FloatActivations::kAuto;
  // Where packed weights are kept: auto, off or a folder. Commands without the option read a model
  // once.
  std::string packed = "off";
  uint64_t packed_size = 0;
  uint64_t expert_memory = 0;  // 0: all experts are in memory
  std::vector<engine::AdapterOptions> adapters = {};
  bool encoders = false;  // no option: commands that take models which write nothing set it
  // No option: once it is set, loading ends with an exception. Null: never.
  const std::atomic<bool>* given_up = nullptr;
  // No option: told what else is a line on stderr; there is no progress bar then.
  std::function<void(const std::string&)> says = {};
};

// -m and --threads alone.
void add_model_flags(const Command& command, EngineFlags& flags);
// These and how keys and values are kept. strategy: what the command takes without --kv; empty: the
// first one.
void add_engine_flags(const Command& command, EngineFlags& flags, std::string_view strategy = {});
// Where packed weights are kept: of commands that run a model again and again.
void add_packed_flags(const Command& command, EngineFlags& flags);
// How sums of ranks travel.
Option add_rank_activations(const Command& command, EngineFlags& flags);
// Several processes for one model.
void add_rank_flags(const Command& command, EngineFlags& flags);

// The cache options that the flags ask for.
base::Result<engine::KvOptions> kv_options(const EngineFlags& flags);
// Which type --kv-type auto has chosen, and why.
std::string auto_note(const engine::ChosenType& chosen);
// Loads the model, with a progress bar unless quiet.
base::Result<std::unique_ptr<engine::Engine>> open_engine(const EngineFlags& flags,
                                                          const Common& common);

// "kvick: MESSAGE" on stderr; returns 2.
int refuse(const base::Error& error);

}  // namespace kvick::cli
