#pragma once
// Prompts of public collections, by category.

#include <map>
#include <string>
#include <vector>

#include "engine/core/engine.h"

namespace kvick::lab {

struct PromptSet {
  // Tokens of each prompt by category, in the file's order.
  std::map<std::string, std::vector<std::vector<engine::Token>>> categories;
};

// Reads a file with one JSON object per line: of Spec-Bench ("category" and "turns"; the first turn
// is asked through the model's chat template), GSM8K ("question", asked in the same way, in the
// category "question"; its answer is ignored) or HumanEval ("prompt", which the model continues).
// Reads at most `most` prompts per category and leaves out those that do not leave `room` tokens of
// the context. Errors, with the line: the file cannot be read; a line has none of these forms.
base::Result<PromptSet> read_prompts(const std::string& path, const engine::Engine& engine,
                                     uint32_t most, uint32_t room);

}  // namespace kvick::lab
