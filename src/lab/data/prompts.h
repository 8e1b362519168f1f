#pragma once
// Prompts of public collections, by category.

#include <map>
#include <string>
#include <vector>

#include "engine/core/engine.h"

namespace kvick::lab {

struct PromptSet {
  // Tokens of each prompt, in the file's order.
  std::map<std::string, std::vector<std::vector<engine::Token>>> categories;
};

// A file with a JSON object a line: of Spec-Bench ("category" and "turns", whose first one is asked
// by the model's chat template), of GSM8K ("question", asked likewise and of the category
// "question"; its answer is not read) or of HumanEval ("prompt", which the model goes on from). At
// most `most` of each category; those that do not leave `room` tokens of the context are left out.
// Errors: a file that cannot be read or is neither, named with the line.
base::Result<PromptSet> read_prompts(const std::string& path, const engine::Engine& engine,
                                     uint32_t most, uint32_t room);

}  // namespace kvick::lab
