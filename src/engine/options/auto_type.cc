#include "engine/options/auto_type.h"

#include <filesystem>
#include <utility>

#include "engine/artifacts/types_bound.h"

namespace kvick::engine {
namespace {

using base::Result;

// Limit on the choices that are remembered, since requests may ask for any number of them.
constexpr size_t kMostChosen = 256;

std::string key_of(const KvOptions& options) {
  return fmt::format("{}|{}|{}|{}", kv::spec_text(options.spec), kv_select_text(options),
                     options.tier ? kv::spec_text(*options.tier) : "", kv_type_text(options));
}

// Returns the options that `accepts` may depend on, with the type; without limits on tokens or
// bytes.
Result<KvOptions> with_type(const KvOptions& options, const std::string& type) {
  KVICK_TRY(const KvOptions types, parse_kv_options("", type));
  KvOptions with = {.spec = options.spec, .select = options.select, .tier = options.tier};
  with.take_types(types);
  with.state_type = types.state_type;
  return with;
}

}  // namespace

Result<ChosenType> AutoTypes::choose(const KvOptions& options,
                                     base::FunctionRef<bool(const KvOptions&)> accepts) {
  const AutoType& wanted = *options.automatic;
  ChosenType chosen;
  const std::lock_guard lock(mutex_);
  const std::string key = key_of(options);
  if (const auto known = chosen_.find(key); known != chosen_.end()) {
    chosen = known->second;
  } else {
    const std::string path = wanted.path.empty() ? types_path(model_path_) : wanted.path;
    // Error messages also go to clients, which need not know the folder of the model.
    const std::string name =
        wanted.path.empty() ? std::filesystem::path(path).filename().string() : path;
    std::error_code error;
    if (!std::filesystem::exists(path, error))
      return base::fail(
          "--kv-type auto: this model's types have not been measured: there is no {}{}; kvick "
          "train kvtypes -m MODEL -f TEXT writes it",
          name, wanted.path.empty() ? " beside it" : "");
    KVICK_TRY(const std::shared_ptr<const TypesFile> file, files_.read(path, model_));
    const TypeMeasured* best = nullptr;
    for (const TypeMeasured& one : file->types) {
      if (!is_within(one, wanted.kl)) continue;
      if (best != nullptr && std::pair(one.bytes_per_token, one.kl_mean) >=
                                 std::pair(best->bytes_per_token, best->kl_mean))
        continue;
      // Parsing fails for static types: they need a file, which the measurement does not name.
      const auto with = with_type(options, one.type);
      if (!with.ok()) continue;
      // auto chooses types of rows. What was measured with rounded states counts only where states
      // are rounded.
      const kernels::DType own = options.type_of_states();
      if (with->state_type.value_or(own) == own && accepts(*with)) best = &one;
    }
    if (best == nullptr)
      return base::fail(
          "--kv-type auto: of the types measured in {} none fits the other options and stays "
          "within a KL of {} of f16, with a quarter to spare: give a larger kl, or a type",
          name, wanted.kl);
    chosen = {.options = {}, .measured = *best, .text = file->text};
    if (chosen_.size() >= kMostChosen) chosen_.clear();
    chosen_[key] = chosen;
  }
  KVICK_TRY(const KvOptions types, parse_kv_options("", chosen.measured.type));
  chosen.options = options;
  chosen.options.take_types(types);
  return chosen;
}

}  // namespace kvick::engine
