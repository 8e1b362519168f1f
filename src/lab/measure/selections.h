#pragma once
// The row-selection policies (kv/registry/policies.h) and budgets that an experiment goes through.

#include <span>
#include <string>
#include <vector>

#include "kv/registry/registry.h"
#include "lab/core/experiment.h"

namespace kvick::lab {

struct Selected {
  std::string policy;  // with its options, without the budget and a file's folder: "maple file=r16"
  std::string budget;  // as the policy takes it: "0.25", "512"
  kv::Spec spec;       // with the budget; without a name all rows are read

  std::string label() const;  // "quest 25 %"
};

// The name, among those of policies, for reading all rows.
inline constexpr std::string_view kFull = "full";
Selected full_attention();

// Returns the policies that the user gave, else `policies`, or all policies if that is empty.
// Default policies whose file was not given are left out. Each policy comes at the budgets that the
// user gave, else at `budgets`. Errors: no such policy; a budget among a policy's options; a policy
// that the user gave without the file that it needs; two with the same label.
base::Result<std::vector<Selected>> selections(const Bench& bench,
                                               std::span<const char* const> policies,
                                               std::span<const char* const> budgets);

// Returns cache options for a selection, with f16 rows in memory.
engine::KvOptions options_of(const Selected& selected, uint32_t max_tokens);
// Error: the reason why this model cannot use the selection, such as a file that does not fit.
base::Status<> check(const engine::Engine& engine, const Selected& selected);

// Returns a budget in percent of `rows` rows.
double percent_of(const std::string& budget, uint32_t rows);

// Returns the text of Bench::file, tokenized as by kvick ppl. Errors: no file was given; it cannot
// be read.
base::Result<std::vector<engine::Token>> text_of(const Bench& bench, std::string_view experiment);
// Returns the bench's model. Error: the experiment needs one, but none was given.
base::Result<engine::Engine*> model_of(const Bench& bench, std::string_view experiment);
// Returns the tokens of a context: those that the user gave, else `longest`, but at most the
// model's context. Error: the model's context is less than the user asked for.
base::Result<uint32_t> context_of(const Bench& bench, const engine::Engine& engine,
                                  uint32_t longest);
// Returns a file's or a model's name without folder and extension.
std::string stem_of(const std::string& path);

}  // namespace kvick::lab
