#pragma once
// The results of kvick plan, as text and as JSON.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/engine.h"
#include "kv/values/saturating.h"
#include "plan/forecast/predict.h"

namespace kvick::cli {

// One strategy, for the whole load.
struct PlannedWay {
  kv::Spec spec;
  kv::Cost cost;
  plan::TokenSeconds token = {};  // of the last token; zero if it is unpredicted
  double decode_tok_s = 0;
};

// A group of equal layers, and what it keeps with the strategy asked for.
struct PlannedGroup {
  kv::LayerGroup group;
  uint64_t token_bytes = 0;  // as rows are written
  kv::Cost cost;             // for the whole load
};

// One way of dividing the work over several machines like this one.
struct PlannedSplit {
  uint64_t weight_bytes = 0;         // on the machine that has the most
  double one_tok_s = 0;              // for a single sequence
  double many_tok_s = 0;             // for PlannedRanks::many sequences together
  double prefill_s = 0;              // of a prompt
  double compute_s = 0, wait_s = 0;  // of one token of a single sequence: compute, and network
};
struct PlannedRanks {
  unsigned ranks = 1;
  uint32_t many = 0;  // sequences of many_tok_s
  PlannedSplit replicas;
  // Empty if the model cannot be divided this way; no_tensor and no_pipeline say why.
  std::optional<PlannedSplit> tensor = {}, pipeline = {};
  std::string no_tensor = {}, no_pipeline = {};
};

struct PlanReport {
  plan::ModelSize model;
  engine::KvOptions kv;  // the options asked for
  uint32_t tokens = 0;   // of each sequence
  uint32_t batch = 1;
  uint64_t memory_bytes = 0;        // for weights and cache
  uint64_t kv_memory = UINT64_MAX;  // the part of memory_bytes for the cache
  uint64_t expert_memory = 0;       // limit for experts; 0: all are in memory
  std::vector<PlannedWay> ways;  // the strategy asked for, then the others that can keep the load
  std::vector<PlannedGroup> groups = {};  // of equal layers; one if all layers are equal
  double prefill_s = 0;                   // of a prompt of `tokens`, with the strategy asked for
  engine::PromptArithmetic prompts = engine::PromptArithmetic::kAuto;
  model::Role prompt_role = model::Role::kAnswer;  // by `prompts` and the cache
  std::vector<std::string> notes = {};             // from engine::layer_notes
  std::string unpredicted = {};                    // why no seconds are predicted; empty: they are
  uint32_t growths = 0;                            // BMC's T for this context, by spec_rates
  kv::GrowthRates rates = {};                      // of steps of one row
  uint32_t spec_rows = 1;           // rows of a step with its draft tokens: k of BMC's equation 9
  double spec_tokens = 1;           // tokens that a step yields: m of BMC's equation 9
  kv::GrowthRates spec_rates = {};  // of steps of spec_rows rows
  // Beside the cache, while a step reads a piece of a prompt: of policies that forget rows.
  uint64_t step_bytes = 0;
  uint64_t largest_context = 0, largest_batch = 0;  // that fit in memory
  std::string tier_shortage = {};          // why --kv-tier cannot keep the load; empty: it can
  std::optional<PlannedRanks> ranks = {};  // empty: not asked for
  std::optional<double> others;            // share of CPU time used by other programs meanwhile

  kernels::DType k_type() const { return kv.k_type.value_or(kernels::DType::kF16); }
  kernels::DType v_type() const { return kv.v_type.value_or(kernels::DType::kF16); }
  // Returns the bytes of weights in memory, without experts beyond their limit.
  uint64_t weight_bytes() const {
    const uint64_t experts = plan::packed_expert_bytes(model);
    const uint64_t left_out =
        expert_memory > 0 && experts > expert_memory ? experts - expert_memory : 0;
    return plan::packed_bytes(model) - left_out;
  }
  uint64_t cache_bytes() const {
    return kv::saturating_add(ways.front().cost.fast_bytes, step_bytes);
  }
  bool fits() const {
    const uint64_t cache = cache_bytes();
    return cache <= kv_memory && weight_bytes() + cache <= memory_bytes && tier_shortage.empty();
  }
};

// Checks that the strategy can keep the model and the load, without measuring. Errors: an
// impossible spec, options that models with different kinds of layers cannot have.
base::Status<> check_plan(const PlanReport& report, const kernels::Table& kernels,
                          base::ThreadPool& pool);

// Measures, and fills in the fields after memory_bytes. Errors: an impossible spec, no room,
// options that models with different kinds of layers cannot have.
base::Status<> fill_plan(base::ThreadPool& pool, const kernels::Table& kernels,
                         engine::Attention attention, PlanReport& report);

// Returns the setup for the report's model and load, with no memory limit and without growth_rates.
kv::Setup plan_setup(const PlanReport& report, const kernels::Table& kernels,
                     base::ThreadPool& pool);

std::vector<std::string> advice_of(const PlanReport& report);
nlohmann::ordered_json plan_json(const PlanReport& report);
std::string plan_text(const PlanReport& report);

}  // namespace kvick::cli
