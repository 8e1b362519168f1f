#pragma once
// The models of `kvick serve`: what they are called, what they may take, and how one is loaded.

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

// The ids that clients see, in the order of -m.
std::vector<std::string> model_names(const ServeFlags& flags);
// Errors: names that do not fit the models, or are alike; an option that takes one model.
base::Status<> check_models(const ServeFlags& flags);
// The cores of each instance; none for a single one, which the system may put wherever there is
// room.
base::Result<std::vector<base::Team>> teams_of(const ServeFlags& flags);

// What it is made of outlives it and the host.
class ModelLoader {
 public:
  ModelLoader(const ServeFlags& flags, const Common& common, std::span<const base::Team> teams,
              const server::ClientLimits& limits, Watch& watch);

  // With the first model loaded, or all. Errors: whatever is wrong with one of these.
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
  uint64_t most_bytes_;                         // of all models
  mutable std::atomic<bool> given_up_ = false;  // nobody waits any more for what is being loaded
};

}  // namespace kvick::cli
