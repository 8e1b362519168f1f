#pragma once
// `kvick bench --spec` and `--lora`: compares the speed of answers with draft tokens or adapters to
// that of answers without, on a text.

#include <string>
#include <vector>

#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "engine/eval/answer_prompts.h"

namespace kvick::cli {

struct BenchAnswers {
  std::string spec;               // the value of --spec; empty: no draft tokens
  std::vector<std::string> lora;  // PATH[:SCALE] each; sequences use them in turn
  std::string file;               // the text; empty: bench_text()
  uint32_t prompt = 0, decode = 0, parallel = 1, repeats = 1;
};

// Prints the report. Errors: an invalid --spec, adapter or text; a prompt and answer that exceed
// the context.
base::Result<int> bench_answers(const BenchAnswers& what, const EngineFlags& engine,
                                const Common& common);

}  // namespace kvick::cli
