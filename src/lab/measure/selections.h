#pragma once
// Which row-selection policies (kv/registry/policies.h) an experiment goes through, and at which
// budgets.

#include <span>
#include <string>
#include <vector>

#include "kv/registry/registry.h"
#include "lab/core/experiment.h"

namespace kvick::lab {

struct Selected {
  std::string policy;  // with its options but for the budget and a file's folder: "maple file=r16"
  std::string budget;  // as the policy takes it: "0.25", "512"
  kv::Spec spec;       // with the budget; no name: all rows are read

  std::string label() const;  // "quest 25 %"
};

// The name for reading all rows, among the policies.
inline constexpr std::string_view kFull = "full";
Selected full_attention();

// The policies that were asked for, else `policies`, or all if that is empty; by default without
// those that need a file that was not given. Each policy at the budgets that were asked for, else
// at `budgets`. Errors: no such policy, a budget among a policy's options, a requested policy
// without the file that it needs.
base::Result<std::vector<Selected>> selections(const Bench& bench,
                                               std::span<const char* const> policies,
                                               std::span<const char* const> budgets);

// Cache options for a selection, with f16 rows in memory.
engine::KvOptions options_of(const Selected& selected, uint32_t max_tokens);
// Error: why this model cannot use the selection, including a wrong file.
base::Status<> check(const engine::Engine& engine, const Selected& selected);

// A budget in percent of `rows` rows.
double percent_of(const std::string& budget, uint32_t rows);

// The text of Bench::file, as kvick ppl reads it. Errors: none was given; it cannot be read.
base::Result<std::vector<engine::Token>> text_of(const Bench& bench, std::string_view experiment);
// The bench's model, which the experiment needs.
base::Result<engine::Engine*> model_of(const Bench& bench, std::string_view experiment);
// Tokens of a context: those that were asked for, else `longest` or the model's if that is less.
// Error: the model has less than were asked for.
base::Result<uint32_t> context_of(const Bench& bench, const engine::Engine& engine,
                                  uint32_t longest);
// A file's or a model's name without its folder.
std::string stem_of(const std::string& path);

}  // namespace kvick::lab
