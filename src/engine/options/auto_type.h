#pragma once
// --kv-type auto: the types of keys and values that a measurement of the model recommends.

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "base/function_ref.h"
#include "base/result.h"
#include "engine/artifacts/types_file.h"
#include "engine/options/kv_options.h"

namespace kvick::engine {

struct ChosenType {
  KvOptions options;  // as they were asked for, with the types
  TypeMeasured measured;
  std::string text;  // on which it was measured
};

class AutoTypes {
 public:
  AutoTypes(std::string model_path, ModelIdentity model)
      : model_path_(std::move(model_path)), model_(std::move(model)) {}

  // Among the measured types within the requested loss that `accepts` takes with the other options:
  // the one with the fewest bytes, ties by the smaller loss. accepts may depend only on the
  // strategy, the tier, the policy and the types; it is asked once for each combination.
  // options.automatic is given. Any thread. Errors: what read_types says; no type fits.
  base::Result<ChosenType> choose(const KvOptions& options,
                                  base::FunctionRef<bool(const KvOptions&)> accepts);

 private:
  std::string model_path_;
  ModelIdentity model_;
  TypesFiles files_;
  std::mutex mutex_;
  std::map<std::string, ChosenType> chosen_;  // by all that it depends on
};

}  // namespace kvick::engine
