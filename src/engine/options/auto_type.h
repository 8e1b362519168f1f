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
  KvOptions options;  // the requested options, with the chosen types
  TypeMeasured measured;
  std::string text;  // name of the text of the measurement
};

class AutoTypes {
 public:
  AutoTypes(std::string model_path, ModelIdentity model)
      : model_path_(std::move(model_path)), model_(std::move(model)) {}

  // Returns the measured type with the fewest bytes (ties by the smaller loss) among those within
  // the requested loss that `accepts` takes with the other options. accepts may depend only on the
  // strategy, the tier, the policy and the types; it is asked once for each combination.
  // options.automatic must be given. On any thread. Errors: what read_types reports; no type fits.
  base::Result<ChosenType> choose(const KvOptions& options,
                                  base::FunctionRef<bool(const KvOptions&)> accepts);

 private:
  std::string model_path_;
  ModelIdentity model_;
  TypesFiles files_;
  std::mutex mutex_;
  std::map<std::string, ChosenType> chosen_;  // by the options that a choice depends on
};

}  // namespace kvick::engine
