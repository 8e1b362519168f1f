#pragma once
// Keeps the last predictor, so that the cost of a request is known without reading its file again.

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "engine/artifacts/predictor_file.h"

namespace kvick::engine {

class PredictorCache {
 public:
  // Returns what read_predictor returns, or the last result if the file has not changed since. On
  // any thread.
  base::Result<std::shared_ptr<const kv::Predictor>> read(const std::string& path,
                                                          const ModelIdentity& model,
                                                          const model::Config& config);

 private:
  struct Version {
    std::string path;
    std::filesystem::file_time_type written;
    uintmax_t bytes = 0;
    bool operator==(const Version&) const = default;
  };

  std::mutex mutex_;
  Version version_;
  std::shared_ptr<const kv::Predictor> predictor_;  // null: none was read
};

}  // namespace kvick::engine
