#pragma once
// `kvick bench --spec` and `--lora`: answers with draft tokens or with adapters against answers
// without, over a text.

#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "engine/eval/answer_prompts.h"

namespace kvick::cli {

struct BenchAnswers {
  std::string spec;               // as --spec has it; empty: without drafts
  std::vector<std::string> lora;  // PATH[:SCALE] each: those of the sequences, in turn
  std::string file;               // the text; empty: bench_text()
  uint32_t prompt = 0, decode = 0, parallel = 1, repeats = 1;
};

// Prints the report. Errors: a way to draft, an adapter or a text that is none, a prompt and an
// answer that do not fit the context.
base::Result<int> bench_answers(const BenchAnswers& what, const EngineFlags& engine,
                                const Common& common);

}  // namespace kvick::cli
