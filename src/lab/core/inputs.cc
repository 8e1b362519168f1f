#include "lab/core/inputs.h"

#include <xxhash.h>

#include "engine/artifacts/identity.h"

namespace kvick::lab {

base::Result<std::string> inputs_of(const Bench& bench) {
  std::vector<std::string> files = {bench.model_path, bench.file, bench.select.predictor,
                                    bench.select.components, bench.select.scores};
  files.insert(files.end(), bench.bounded.models.begin(), bench.bounded.models.end());
  files.insert(files.end(), bench.bounded.recall.begin(), bench.bounded.recall.end());
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {}\n", bench.tokens, bench.batch, bench.prompts,
                  bench.prompt, bench.text_tokens, bench.answer, bench.bounded.trained, bench.tier);
  for (const std::string& file : files) {
    std::string hash = "-";
    if (!file.empty()) {
      KVICK_TRY(hash, engine::content_hash(file, bench.pool));
    }
    text += hash + "\n";
  }
  // Without it results have the hash that they had before there was such a file.
  if (!bench.select.heads.empty()) {
    KVICK_TRY(const std::string hash, engine::content_hash(bench.select.heads, bench.pool));
    text += "heads " + hash + "\n";
  }
  const XXH128_hash_t all = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", all.high64, all.low64);
}

}  // namespace kvick::lab
