#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/formats/dtype.h"
#include "kv/registry/registry.h"

namespace kvick::engine {

// Types that a measurement of the model chooses: those of fewest bytes whose next tokens stray no
// further than kl from those of f16 (auto_type.h).
struct AutoType {
  double kl = 0.01;  // KL(f16 || type), mean, in nats
  std::string path;  // of the measurement; empty: beside the model
};

// How an engine keeps keys and values. What is not given is the model's to say: Engine::resolved.
struct KvOptions {
  kv::Spec spec;    // not given: no name
  kv::Spec select;  // the policy that chooses the rows to read; not given: no name
  std::optional<kernels::DType> k_type, v_type;
  kv::Hadamard hadamard = {};           // which of the rows of these types are rotated
  std::optional<kv::Aging> aging = {};  // of old rows, if their types change with age
  uint32_t max_tokens = 0;              // of one sequence; 0: the model's context
  uint64_t max_bytes = UINT64_MAX;
  std::shared_ptr<kv::Budget> budget = {};          // that it shares with other stores
  std::function<void(double)> on_reuse = {};        // as in kv::Setup
  std::shared_ptr<kv::PrefixWatcher> watcher = {};  // as in kv::Setup
  std::string ranges_path;                 // of the static types, as measure_ranges() made it
  std::optional<AutoType> automatic = {};  // instead of types
  std::optional<kv::Spec> tier = {};  // a slower one for the rows (kv/tier/tier.h); none: memory

  // Whether the types are given, or how they are found.
  bool names_types() const { return k_type || v_type || automatic; }
  // All that says how rows are written becomes the other's.
  void take_types(const KvOptions& other);
};

// spec: NAME[:key=value,...]; type: f32, f16, bf16, q8, q4, q3, q2, static8:FILE or static16:FILE
// of both, or of each: k=q8,v=q4; or one that changes with age, with its options:
// mixed:window=128,old=q4. Quantised ones take rotate=on or off, as in q4:rotate=on. Or
// auto[:kl=0.01,file=PATH].
// tier: a slower tier with its options: ram, numa:node=N or file:dir=PATH. select: a policy,
// NAME[:key=value,...], "none", or auto:loss=L[,policy=NAME][,key=value...], which is the policy
// (quest if none is named) with loss=L. Each may be empty, and then is not given, like a type that
// is not named. Errors list what exists.
base::Result<KvOptions> parse_kv_options(std::string_view spec, std::string_view type,
                                         std::string_view tier = {}, std::string_view select = {});
// The inverse of `type`: "q8", "auto:kl=0.01", "k=q8,v=q4:rotate=on" if they differ,
// "mixed:window=128,old=q8". Rows that differ have different texts, also from those of versions
// that had no rotation. files: with the one that static types have their ranges in.
std::string kv_type_text(const KvOptions& options, bool files = false);
// Whether all rows are read: the policy is not given, or "none".
bool reads_all(const KvOptions& options);
// The inverse of `select`: "none" if all rows are read.
std::string kv_select_text(const KvOptions& options);

}  // namespace kvick::engine
