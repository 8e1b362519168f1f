#pragma once
// The predictor that was read last, so that what a request costs is known without reading a file.

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "engine/artifacts/predictor_file.h"

namespace kvick::engine {

class PredictorCache {
 public:
  // read_predictor, or what it gave the last time, if the file has not changed since. Any thread.
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
