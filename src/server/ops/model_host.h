#pragma once
// The models of one server. A model is loaded when the first request names it. All loaded models
// share one limit in bytes. To make room, idle models are unloaded, least recently used first.

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
  // Owns engine and service; null: they outlive this.
  std::shared_ptr<const void> owner;
  const engine::Engine* engine = nullptr;
  engine::Service* service = nullptr;
  MakeConstraint constraint;
  ClientLimits limits = {};
  uint64_t bytes = 0;     // upper bound: weights plus the limit of the cache
  std::string name = {};  // the model's name for clients; the host sets it
};

struct ModelSource {
  std::string name;    // the model's name for clients, unique
  uint64_t bytes = 0;  // expected size; LoadedModel::bytes replaces it after the load
  // Called on one thread at a time.
  std::function<base::Result<LoadedModel>()> load;
};

struct HostOptions {
  uint64_t max_bytes = UINT64_MAX;  // limit for all models together
  size_t most_waiting = 256;        // limit on the requests that wait for a load
  // Seconds that a load waits for requests to end so that their models become idle: a client has
  // its answer a moment before the model is idle.
  double room_seconds = 2;
  // Called with one sentence when a model was loaded, was unloaded, or failed to load.
  std::function<void(const std::string&)> report = {};
  // Called by stop(): a load in progress may end early with an error.
  std::function<void()> give_up_load = {};
};

class ModelHost {
 public:
  // Keeps the model in memory while the host exists. May be released on any thread.
  using Lease = std::shared_ptr<const LoadedModel>;
  // Called once, on the caller's thread or on the loader's, which waits for it. Errors: status 500
  // if the model cannot be loaded, 503 if there is no room now.
  using Ready = std::function<void(ApiResult<Lease>)>;
  // Becomes true when the client has left: the request no longer counts, and Ready may never be
  // called. Null: the client stays.
  using Left = std::shared_ptr<const std::atomic<bool>>;

  // Takes at least one source. Loads nothing yet.
  ModelHost(std::vector<ModelSource> sources, HostOptions options);
  // Hosts one loaded model that is never unloaded.
  ModelHost(std::string name, LoadedModel model);
  ~ModelHost();

  size_t size() const { return slots_.size(); }
  const std::string& name(size_t model) const { return slots_[model].source.name; }
  uint64_t bytes(size_t model) const;

  // Loads a model at start, while no other thread uses the host. Error: why it failed.
  base::Status<> load(size_t model);

  // All calls below are safe on any thread.
  // look() and use() return the model, or null if it is not in memory. look() does not count as a
  // use: a model that is only looked at stays idle.
  Lease look(size_t model);
  Lease use(size_t model);
  // Calls `ready` with the model, after loading it if necessary.
  void when_loaded(size_t model, Ready ready, Left left = nullptr);
  // Waits for a load in progress and drops waiting requests. After it returns, nothing is loaded
  // and no Ready is called.
  void stop();

 private:
  struct Waiting {
    Ready ready;
    Left left;
  };
  struct Slot {
    ModelSource source;
    uint64_t bytes = 0;
    bool measured = false;  // `bytes` is the size of the loaded model
    uint64_t last_use = 0;
    // Number of leases. Shared with them, because jobs of a service that outlives the host end
    // after it.
    std::shared_ptr<std::atomic<size_t>> leases = std::make_shared<std::atomic<size_t>>(0);
    std::unique_ptr<const LoadedModel> model;  // null: not in memory
    std::vector<Waiting> waiting;  // not empty: the slot is in the queue or being loaded
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
  std::deque<Slot> slots_;   // the mutex guards all but source and leases
  std::deque<Slot*> queue_;  // slots to load
  size_t waiting_ = 0;       // waiting requests of all slots
  uint64_t uses_ = 0;
  bool stopping_ = false;
  std::thread loader_;  // starts with the first load that a request causes
};

}  // namespace kvick::server
