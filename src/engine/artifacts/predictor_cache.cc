#include "engine/artifacts/predictor_cache.h"

#include <system_error>

namespace kvick::engine {

base::Result<std::shared_ptr<const kv::Predictor>> PredictorCache::read(
    const std::string& path, const ModelIdentity& model, const model::Config& config) {
  std::error_code no_time, no_size;  // on an error read_predictor reports what is wrong
  const Version version = {.path = path,
                           .written = std::filesystem::last_write_time(path, no_time),
                           .bytes = std::filesystem::file_size(path, no_size)};
  const std::lock_guard lock(mutex_);
  if (predictor_ != nullptr && !no_time && !no_size && version == version_) return predictor_;
  KVICK_TRY(predictor_, read_predictor(path, model, config));
  version_ = version;
  return predictor_;
}

}  // namespace kvick::engine
