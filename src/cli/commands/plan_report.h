#pragma once
// What kvick plan finds, as text and as JSON.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/engine.h"
#include "plan/forecast/predict.h"

namespace kvick::cli {

// One way of keeping the cache, for the whole load.
struct PlannedWay {
  kv::Spec spec;
  kv::Cost cost;
  plan::TokenSeconds token = {};  // of the last one; none if it is unpredicted
  double decode_tok_s = 0;
};

// Layers that are alike, and what they keep by the way that was asked for.
struct PlannedGroup {
  kv::LayerGroup group;
  uint64_t token_bytes = 0;  // as a row is written
  kv::Cost cost;             // of the whole load
};

// One way of using several machines like this one.
struct PlannedSplit {
  uint64_t weight_bytes = 0;         // on the machine that has most of them
  double one_tok_s = 0;              // of a single sequence
  double many_tok_s = 0;             // of PlannedRanks::many, all together
  double prefill_s = 0;              // of a prompt
  double compute_s = 0, wait_s = 0;  // of a token of a single sequence: computed, on the network
};
struct PlannedRanks {
  unsigned ranks = 1;
  uint32_t many = 0;  // sequences
  PlannedSplit replicas;
  // None if the model cannot be divided this way, and why.
  std::optional<PlannedSplit> tensor = {}, pipeline = {};
  std::string no_tensor = {}, no_pipeline = {};
};

struct PlanReport {
  plan::ModelSize model;
  engine::KvOptions kv;  // the way that was asked for
  uint32_t tokens = 0;   // of each sequence
  uint32_t batch = 1;
  uint64_t memory_bytes = 0;        // for weights and cache
  uint64_t kv_memory = UINT64_MAX;  // of it for the cache
  uint64_t expert_memory = 0;       // that experts may take; 0: all are in memory
  std::vector<PlannedWay> ways;     // that one first, then the other strategies that know the load
  std::vector<PlannedGroup> groups = {};  // of the model's layers; one if all are alike
  double prefill_s = 0;                   // of a prompt of `tokens`, by that way
  std::vector<std::string> notes = {};    // engine::layer_notes
  std::string unpredicted = {};           // why no seconds are predicted; empty: they are
  uint32_t growths = 0;                   // BMC's T for this context, by spec_rates
  kv::GrowthRates rates = {};             // of steps of one row
  uint32_t spec_rows = 1;           // of a step, draft tokens among them: k of BMC's equation 9
  double spec_tokens = 1;           // that a step gives: m
  kv::GrowthRates spec_rates = {};  // of steps of spec_rows rows
  uint64_t largest_context = 0, largest_batch = 0;  // that the memory holds
  std::string tier_shortage = {};          // why --kv-tier cannot keep the load; empty: it can
  std::optional<PlannedRanks> ranks = {};  // if they were asked for
  std::optional<double> others;  // share of the processors that others used while it was measured

  kernels::DType k_type() const { return kv.k_type.value_or(kernels::DType::kF16); }
  kernels::DType v_type() const { return kv.v_type.value_or(kernels::DType::kF16); }
  // In memory.
  uint64_t weight_bytes() const {
    const uint64_t experts = plan::packed_expert_bytes(model);
    const uint64_t left_out =
        expert_memory > 0 && experts > expert_memory ? experts - expert_memory : 0;
    return plan::packed_bytes(model) - left_out;
  }
  bool fits() const {
    const uint64_t cache = ways.front().cost.fast_bytes;
    return cache <= kv_memory && weight_bytes() + cache <= memory_bytes && tier_shortage.empty();
  }
};

// Whether the model and the load can be kept so, without measuring. Error: a spec that cannot be,
// options that layers which differ cannot have.
base::Status<> check_plan(const PlanReport& report, const kernels::Table& kernels,
                          base::ThreadPool& pool);

// Measures, and fills in what follows memory_bytes. Error: a spec that cannot be, no room, options
// that layers which differ cannot have.
base::Status<> fill_plan(base::ThreadPool& pool, const kernels::Table& kernels,
                         engine::Attention attention, PlanReport& report);

// Of the report's model and load, without a limit of memory; growth_rates is left out.
kv::Setup plan_setup(const PlanReport& report, const kernels::Table& kernels,
                     base::ThreadPool& pool);

std::vector<std::string> advice_of(const PlanReport& report);
nlohmann::ordered_json plan_json(const PlanReport& report);
std::string plan_text(const PlanReport& report);

}  // namespace kvick::cli
