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

// Types that a measurement of the model chooses: those with the fewest bytes whose next-token
// distributions diverge from those of f16 by at most kl (auto_type.h).
struct AutoType {
  double kl = 0.01;  // KL(f16 || type), mean, in nats
  std::string path;  // file of the measurement; empty: beside the model
};

// How an engine keeps keys and values. Engine::resolved fills in what is not given, by the model.
struct KvOptions {
  kv::Spec spec;    // no name: not given
  kv::Spec select;  // the policy that chooses the rows to read; no name: not given
  std::optional<kernels::DType> k_type, v_type;
  kv::Hadamard hadamard = {};           // which rows of these types are rotated
  std::optional<kv::Aging> aging = {};  // types of old rows, if types change with age
  // The type of the states of layers that keep one instead of rows: kF32 or kBF16.
  std::optional<kernels::DType> state_type = {};
  uint32_t max_tokens = 0;  // limit on a sequence's tokens; 0: the model's context
  uint64_t max_bytes = UINT64_MAX;
  std::shared_ptr<kv::Budget> budget = {};          // a budget shared with other stores
  std::function<void(double)> on_reuse = {};        // as in kv::Setup
  std::shared_ptr<kv::PrefixWatcher> watcher = {};  // as in kv::Setup
  std::string ranges_path;  // file of ranges for static types, made by measure_ranges()
  std::optional<AutoType> automatic = {};  // chooses the types, which are then not given
  // A slower tier for rows (kv/tier/tier.h); none: all rows are in memory.
  std::optional<kv::Spec> tier = {};

  // Whether types of rows are given, or a way to choose them.
  bool names_types() const { return k_type || v_type || automatic; }
  // Copies all that says how rows are written: types, rotation, aging, ranges.
  void take_types(const KvOptions& other);
  kernels::DType type_of_states() const { return state_type.value_or(kernels::DType::kF32); }
};

// spec: NAME[:key=value,...].
// type: f32, f16, bf16, q8, q4, q3, q2, static8:FILE or static16:FILE for keys and values, or one
// for each: k=q8,v=q4; or one that changes with age, with its options: mixed:window=128,old=q4.
// Quantised ones take rotate=on or off, as in q4:rotate=on. Or auto[:kl=0.01,file=PATH]. Behind any
// of these, or alone: state=f32 or state=bf16, as in q8,state=bf16.
// tier: a slower tier with its options: ram, numa:node=N or file:dir=PATH.
// select: a policy, NAME[:key=value,...], "none", or auto:loss=L[,policy=NAME][,key=value...],
// which is the policy (by default quest) with loss=L.
// Each may be empty, which leaves it as not given, like a type that is not named. Errors list the
// values that exist.
base::Result<KvOptions> parse_kv_options(std::string_view spec, std::string_view type,
                                         std::string_view tier = {}, std::string_view select = {});
// The inverse of `type`: "q8", "auto:kl=0.01", "k=q8,v=q4:rotate=on" if they differ,
// "mixed:window=128,old=q8". Different rows or states have different texts, also compared with
// versions that had no rotation and no types of states: f32 has no text. files: includes the file
// of ranges of static types.
std::string kv_type_text(const KvOptions& options, bool files = false);
// Whether all rows are read: no policy is given, or "none".
bool reads_all(const KvOptions& options);
// The inverse of `select`: "none" if all rows are read.
std::string kv_select_text(const KvOptions& options);

}  // namespace kvick::engine
