#pragma once
// The models of `kvick serve`: their names, their memory, and loading one.

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/result.h"
#include "cli/commands/serve_flags.h"
#include "server/ops/model_host.h"

namespace kvick::cli {

// Returns the ids that clients see, in the order of -m.
std::vector<std::string> model_names(const ServeFlags& flags);
// Checks the flags. Errors: names that do not match the models or are equal; with several models,
// an option that works with one model only.
base::Status<> check_models(const ServeFlags& flags);
// Returns the cores of each instance. Empty for a single instance: the system may run its threads
// on any core.
base::Result<std::vector<base::Team>> teams_of(const ServeFlags& flags);

// Loads the models of `kvick serve`. The constructor's arguments must outlive the loader and its
// host.
class ModelLoader {
 public:
  ModelLoader(const ServeFlags& flags, const Common& common, std::span<const base::Team> teams,
              const server::ClientLimits& limits, Watch& watch);

  // Returns a host with the first model loaded or, with --preload, all that fit. Errors: those of
  // opening a model.
  base::Result<std::unique_ptr<server::ModelHost>> open_host() const;

 private:
  base::Result<std::unique_ptr<server::ModelHost>> open_several() const;
  base::Result<server::LoadedModel> load(size_t model) const;
  base::Result<EngineFlags> flags_of(size_t model) const;
  uint64_t kv_bytes() const;

  const ServeFlags& flags_;
  const Common& common_;
  std::span<const base::Team> teams_;
  const server::ClientLimits limits_;
  Watch& watch_;
  uint64_t most_bytes_;                         // limit for all models
  mutable std::atomic<bool> given_up_ = false;  // the host gave up the model being loaded
};

}  // namespace kvick::cli
