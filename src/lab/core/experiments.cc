#include "lab/core/experiment.h"

namespace kvick::lab {

std::unique_ptr<Experiment> make_allocators(const Bench& bench);           // allocators.cc
std::unique_ptr<Experiment> make_bmc_sweep(const Bench& bench);            // bmc_sweep.cc
std::unique_ptr<Experiment> make_bounded(const Bench& bench);              // bounded.cc
std::unique_ptr<Experiment> make_breakdown(const Bench& bench);            // breakdown.cc
std::unique_ptr<Experiment> make_budget(const Bench& bench);               // budget.cc
std::unique_ptr<Experiment> make_depth(const Bench& bench);                // depth.cc
std::unique_ptr<Experiment> make_growth(const Bench& bench);               // growth.cc
std::unique_ptr<Experiment> make_long(const Bench& bench);                 // long.cc
std::unique_ptr<Experiment> make_moved(const Bench& bench);                // moved.cc
std::unique_ptr<Experiment> make_needle(const Bench& bench);               // needle.cc
std::unique_ptr<Experiment> make_paged_vs_contiguous(const Bench& bench);  // ..._contiguous.cc
std::unique_ptr<Experiment> make_preemption(const Bench& bench);           // preemption.cc
std::unique_ptr<Experiment> make_prefix(const Bench& bench);               // prefix.cc
std::unique_ptr<Experiment> make_quant(const Bench& bench);                // quant.cc
std::unique_ptr<Experiment> make_scaling(const Bench& bench);              // scaling.cc
std::unique_ptr<Experiment> make_serving(const Bench& bench);              // serving.cc
std::unique_ptr<Experiment> make_sharing(const Bench& bench);              // sharing.cc
std::unique_ptr<Experiment> make_sliding(const Bench& bench);              // sliding.cc
std::unique_ptr<Experiment> make_spec(const Bench& bench);                 // spec.cc
std::unique_ptr<Experiment> make_spec_sweep(const Bench& bench);           // spec_sweep.cc
std::unique_ptr<Experiment> make_table1(const Bench& bench);               // table1.cc
std::unique_ptr<Experiment> make_tier(const Bench& bench);                 // tier.cc
std::unique_ptr<Experiment> make_usecases(const Bench& bench);             // usecases.cc
std::unique_ptr<Experiment> make_waste(const Bench& bench);                // waste.cc

std::span<const ExperimentRow> experiments() {
  static constexpr ExperimentRow kRows[] = {
      {"allocators",
       "a whole model's speed under each way of growing, and where its time goes",
       3,
       make_allocators,
       {.ctx = 512, .batch = 4},
       "--ctx --batch"},
      {"bmc-sweep",
       "the best number of growths of a context, measured and by BMC's model",
       3,
       make_bmc_sweep,
       {.ctx = 1024, .shape = "s"},
       "--shape --ctx"},
      {"bounded",
       "a memory of slots against rows: perplexity, time and bytes by context, recall by slots",
       3,
       make_bounded,
       {.ctx = 256, .tokens = 512},
       "--file --ctx --bounded --recall --trained --tokens"},
      {"breakdown",
       "where the time of attention goes under each way of growing",
       3,
       make_breakdown,
       {.shape = "s"},
       "--shape"},
      {"budget",
       "quality against rows read, by policy, on a model and a text",
       1,
       make_budget,
       {.ctx = 512, .tokens = 1024, .budget = "0.25"},
       "--file --ctx --tokens --prompt --kv-select --budget --predictor --components --scores "
       "--heads",
       true},
      {"depth",
       "time of attention and of whole steps deep in a context, by policy",
       3,
       make_depth,
       {.ctx = 2048, .budget = "0.25"},
       "--file --ctx --batch --kv --kv-tier --kv-select --budget --predictor --components --scores "
       "--heads",
       true},
      {"growth",
       "what a whole model's next token takes at each length of its context",
       3,
       make_growth,
       {.ctx = 512, .batch = 4},
       "--ctx --batch"},
      {"long",
       "contexts up to 16384 tokens: attention and, with -m, a whole model",
       3,
       make_long,
       {.ctx = 2048, .shape = "s"},
       "--shape --ctx --batch"},
      {"moved",
       "quality of answers that reuse rows of tokens from other positions",
       1,
       make_moved,
       {.prompts = 1},
       "--file --prompts"},
      {"needle",
       "whether a planted fact is found, by depth, length and policy",
       1,
       make_needle,
       {.ctx = 512, .prompts = 1},
       "--file --ctx --prompts --kv-select --budget --predictor --components --scores --heads",
       true},
      {"paged-vs-contiguous",
       "attention over blocks against rows in one piece",
       3,
       make_paged_vs_contiguous,
       {.shape = "s"},
       "--shape"},
      {"preemption",
       "time lost with less memory than running requests take together",
       3,
       make_preemption,
       {.prompts = 8, .prompt = 32, .answer = 64},
       "--prompts --prompt --answer"},
      {"prefix",
       "prompts of a trace that the prefix cache serves, by memory, against the ideal",
       1,
       make_prefix,
       {.prompts = 2000},
       "--file --prompts"},
      {"quant",
       "quality, memory and speed of the element types on a model and a text",
       1,
       make_quant,
       {.ctx = 2048, .tokens = 1024},
       "--file --ctx --tokens"},
      {"scaling",
       "what a token takes as contexts and batches grow, beside the roofline",
       3,
       make_scaling,
       {.ctx = 2048, .batch = 8},
       "--ctx --batch --kv --kv-type"},
      {"serving",
       "throughput of a trace of requests with the same memory for the cache",
       3,
       make_serving,
       {.ctx = 512, .prompts = 16},
       "--file --ctx --prompts"},
      {"sharing",
       "memory of several answers to one prompt, sampled and searched for",
       1,
       make_sharing,
       {.prompt = 128, .answer = 32},
       "--prompt --answer"},
      {"sliding",
       "the static sliding cache: bytes, copies and time by its reserve",
       3,
       make_sliding,
       {.ctx = 512, .shape = "s"},
       "--shape --ctx"},
      {"spec",
       "what drafting ahead gains on the prompts of Spec-Bench or HumanEval",
       3,
       make_spec,
       {.prompts = 1, .answer = 32},
       "--file --batch --kv --kv-type --kv-tier --spec --prompts --answer"},
      {"spec-sweep",
       "the best number of growths where steps verify drafts, and BMC's model",
       3,
       make_spec_sweep,
       {.shape = "s"},
       "--shape"},
      {"table1",
       "memory and load of MAPLE's Table 1, from the planner, beside its figures",
       1,
       make_table1,
       {},
       "--shape --ctx --batch --budget"},
      {"tier",
       "decode speed over a slower tier, by bandwidth and context, against the roofline",
       1,
       make_tier,
       {.ctx = 1024, .bandwidth = "4GB/s"},
       "--file --ctx --bandwidth --kv-select --budget --predictor --components --scores --heads",
       true},
      {"usecases",
       "a whole model on short and long prompts and answers, against blocks",
       3,
       make_usecases,
       {.ctx = 256, .batch = 8},
       "--ctx --batch"},
      {"waste",
       "memory that running requests of a trace take and do not use",
       1,
       make_waste,
       {.prompts = 1000},
       "--file --prompts"},
  };
  return kRows;
}

bool reads(const ExperimentRow& row, std::string_view option) {
  return fmt::format(" {} ", row.reads).find(fmt::format(" {} ", option)) != std::string::npos;
}

}  // namespace kvick::lab
