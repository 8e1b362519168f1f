#pragma once
// The models of one server. A model is loaded when the first request names it. All loaded models
// share one byte limit; to make room, idle ones are unloaded, least recently used first.

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/core/engine.h"
#include "engine/serving/service.h"
#include "server/openai/plan.h"
#include "server/ops/client_limits.h"
#include "server/request/error.h"

namespace kvick::server {

// A model in memory.
struct LoadedModel {
  // Of engine and service, if they end with it; null: they outlive it.
  std::shared_ptr<const void> owner;
  const engine::Engine* engine = nullptr;
  engine::Service* service = nullptr;
  MakeConstraint constraint;
  ClientLimits limits = {};
  uint64_t bytes = 0;     // that it takes at most: weights, and its cache's limit
  std::string name = {};  // that clients see; the host sets it
};

struct ModelSource {
  std::string name;  // that clients see; unlike all others
  uint64_t bytes =
      0;  // that it will take, about; LoadedModel::bytes is what counts once it is known
  // On one thread at a time.
  std::function<base::Result<LoadedModel>()> load;
};

struct HostOptions {
  uint64_t max_bytes = UINT64_MAX;  // of all models together
  size_t most_waiting = 256;        // requests for models that are being loaded
  // The longest that a load waits for requests to end whose models occupy its room: a client has
  // its answer a moment before the model is idle.
  double room_seconds = 2;
  // Told, in one sentence, what was loaded and unloaded, and what could not be loaded.
  std::function<void(const std::string&)> report = {};
  // Called by stop(): a load that is under way may end early, with an error.
  std::function<void()> give_up_load = {};
};

class ModelHost {
 public:
  // Keeps the model in memory, as long as there is a host. May end on any thread.
  using Lease = std::shared_ptr<const LoadedModel>;
  // Called once, on the caller's thread or the loader's, which waits for it. Errors: status 500,
  // the model cannot be loaded; 503, not now.
  using Ready = std::function<void(ApiResult<Lease>)>;
  // Set once the client has gone: the request counts no more, and Ready may never be called. Null:
  // it stays.
  using Left = std::shared_ptr<const std::atomic<bool>>;

  // At least one source. Nothing is loaded yet.
  ModelHost(std::vector<ModelSource> sources, HostOptions options);
  // One model that is there, and stays.
  ModelHost(std::string name, LoadedModel model);
  ~ModelHost();

  size_t size() const { return slots_.size(); }
  const std::string& name(size_t model) const { return slots_[model].source.name; }
  uint64_t bytes(size_t model) const;

  // At start, while no other thread uses the host. Error: why the model cannot be loaded.
  base::Status<> load(size_t model);

  // All below may be called from any thread.
  // Null: it is not in memory. A look is no use: models that are only looked at stay idle.
  Lease look(size_t model);
  Lease use(size_t model);
  // Loads it if it is not in memory.
  void when_loaded(size_t model, Ready ready, Left left = nullptr);
  // From its return on nothing is loaded and no Ready called; those that wait are dropped. Waits
  // for a load that is under way.
  void stop();

 private:
  struct Waiting {
    Ready ready;
    Left left;
  };
  struct Slot {
    ModelSource source;
    uint64_t bytes = 0;
    bool measured = false;  // bytes are those of the model once it was loaded
    uint64_t last_use = 0;
    // That are alive. Theirs too: jobs whose service outlives the host end after it.
    std::shared_ptr<std::atomic<size_t>> leases = std::make_shared<std::atomic<size_t>>(0);
    std::unique_ptr<const LoadedModel> model;  // null: not in memory
    std::vector<Waiting> waiting;              // not empty: it is in the queue, or being loaded
  };

  Lease lease_of(Slot& slot);
  void work() noexcept;
  std::vector<Waiting> take_left();
  void answer_all(const std::vector<Waiting>& waiting,
                  const ApiResult<Lease>& loaded) const noexcept;
  ApiResult<Lease> load_guarded(Slot& slot) noexcept;
  ApiResult<Lease> load_slot(Slot& slot);
  ApiStatus make_room(const Slot& wanted);
  ApiStatus wait_for_room(const Slot& wanted);
  Slot* oldest_idle();
  void report(const std::string& what) const;

  const HostOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::deque<Slot> slots_;   // all but their source and leases under the mutex
  std::deque<Slot*> queue_;  // to be loaded
  size_t waiting_ = 0;       // requests, of all slots
  uint64_t uses_ = 0;
  bool stopping_ = false;
  std::thread loader_;  // from the first load that a request asks for
};

}  // namespace kvick::server
