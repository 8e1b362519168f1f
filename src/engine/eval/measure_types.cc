#include "engine/eval/measure_types.h"

#include <algorithm>

#include "engine/artifacts/types_bound.h"
#include "engine/eval/perplexity.h"

namespace kvick::engine {
namespace {

// What is measured if no types are named.
constexpr const char* kTypes[] = {"f16",
                                  "q8",
                                  "k=q8,v=q4",
                                  "kivi4",
                                  "kivi4:window=32",
                                  "mixed:window=32,old=q4,rotate=on",
                                  "q4",
                                  "q4:rotate=on",
                                  "k=q4,v=q3",
                                  "q3",
                                  "k=q3,v=q2",
                                  "q2"};

double bytes_per_token(const Engine& engine, const KvOptions& kv, uint32_t window) {
  return static_cast<double>(engine.store_info(engine.resolved(kv)).used_bytes(window)) / window;
}

}  // namespace

base::Result<TypesMeasured> measure_types(Engine& engine, std::span<const Token> text,
                                          const TypesOptions& options) {
  std::vector<std::string> types = options.types;
  const bool named = !types.empty();
  if (!named) types.assign(std::begin(kTypes), std::end(kTypes));
  // Parsed before any is measured, so that a wrong one is reported at once.
  std::vector<KvOptions> kinds;
  for (const std::string& type : types) {
    KVICK_TRY(const KvOptions kv, parse_kv_options("", type));
    const base::Status<> possible = engine.check_kv(kv);
    // The model's heads are too narrow for it, or its rows are latent.
    if (!possible.ok() && !named) continue;
    KVICK_TRY_VOID(possible);
    kinds.push_back(engine.resolved(kv));
  }
  KVICK_TRY(const KvOptions f16, parse_kv_options("", "f16"));
  TypesMeasured measured;
  for (size_t i = 0; i < kinds.size(); ++i) {
    PerplexityOptions one = {
        .window = options.window, .most = options.most, .kv = kinds[i], .against = f16};
    one.progress = [&](uint64_t done, uint64_t total) {
      if (options.progress) options.progress(i * total + done, kinds.size() * total);
    };
    KVICK_TRY(const Perplexity result, perplexity(engine, text, one));
    measured.f16_perplexity = result.reference_perplexity;
    measured.tokens = result.tokens;
    measured.types.push_back({.type = kv_type_text(kinds[i]),
                              .bytes_per_token = bytes_per_token(engine, kinds[i], options.window),
                              .kl_mean = result.kl_mean,
                              .kl_p99 = result.kl_p99,
                              .perplexity = result.perplexity,
                              .top1_agreement = result.top1_agreement});
  }
  std::stable_sort(measured.types.begin(), measured.types.end(),
                   [](const TypeMeasured& a, const TypeMeasured& b) {
                     return a.bytes_per_token > b.bytes_per_token;
                   });
  // Recommended: the fewest bytes within the limit; ties by the smallest mean KL divergence.
  measured.recommended = measured.types.size();
  for (size_t i = 0; i < measured.types.size(); ++i) {
    const TypeMeasured& one = measured.types[i];
    if (!is_within(one, options.kl)) continue;
    if (measured.recommended == measured.types.size() ||
        std::pair(one.bytes_per_token, one.kl_mean) <
            std::pair(measured.types[measured.recommended].bytes_per_token,
                      measured.types[measured.recommended].kl_mean))
      measured.recommended = i;
  }
  return measured;
}

}  // namespace kvick::engine
