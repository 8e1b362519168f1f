#include "lab/core/inputs.h"

#include <xxhash.h>

#include "engine/artifacts/identity.h"
#include "kv/strategy/spec.h"

namespace kvick::lab {
namespace {

// Returns the files that policies name themselves, as in --kv-select kvzap:file=FILE.
std::vector<std::string> files_of_policies(const Bench& bench) {
  std::vector<std::string> files;
  for (const std::string& policy : bench.select.policies) {
    const auto spec = kv::parse_spec(policy);
    if (!spec.ok()) continue;  // the experiment refuses it
    if (const auto file = spec->options.find("file"); file != spec->options.end())
      files.push_back(file->second);
  }
  return files;
}

}  // namespace

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
  // Without them results have the hash that they had before there were such files.
  if (!bench.select.heads.empty()) {
    KVICK_TRY(const std::string hash, engine::content_hash(bench.select.heads, bench.pool));
    text += "heads " + hash + "\n";
  }
  for (const std::string& file : files_of_policies(bench)) {
    KVICK_TRY(const std::string hash, engine::content_hash(file, bench.pool));
    text += "policy " + hash + "\n";
  }
  const XXH128_hash_t all = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", all.high64, all.low64);
}

}  // namespace kvick::lab
