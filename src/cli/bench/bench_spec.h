#pragma once
// `kvick bench --spec`: decoding with draft tokens against decoding without, over a text.

#include <string>

#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "engine/eval/answer_prompts.h"

namespace kvick::cli {

struct BenchSpec {
  std::string spec;  // as --spec has it
  std::string file;  // the text; empty: bench_text()
  uint32_t prompt = 0, decode = 0, parallel = 1, repeats = 1;
};

// Prints the report. Errors: a way to draft or a file that is none, a prompt and an answer that do
// not fit the context.
base::Result<int> bench_spec(const BenchSpec& what, const EngineFlags& engine,
                             const Common& common);

}  // namespace kvick::cli
