#include "server/ops/model_host.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/thread.h"

namespace kvick::server {
namespace {

using base::Done;

constexpr double kMegabyte = 1 << 20;
constexpr std::chrono::milliseconds kRoomInterval{10};

ApiError busy(std::string message) {
  return {.status = 503,
          .message = std::move(message),
          .code = "busy",
          .headers = {{"Retry-After", "1"}}};
}

ApiError cannot_load(const std::string& name, const std::string& why) {
  return {.status = 500,
          .message = fmt::format("the model {} cannot be loaded: {}", name, why),
          .code = "model_load_failed"};
}

// For lack of memory the sentence may be missing: the short texts need none.
ApiError no_memory_for(const std::string& name) noexcept {
  try {
    ApiError error =
        busy(fmt::format("there is no memory for the model {} now; try again later", name));
    error.code = "no_memory";
    return error;
  } catch (const std::bad_alloc&) {
    return {.status = 503, .message = "out of memory", .code = "no_memory"};
  }
}

}  // namespace

ModelHost::ModelHost(std::vector<ModelSource> sources, HostOptions options)
    : options_(std::move(options)) {
  KVICK_CHECK(!sources.empty(), "a host of no models");
  for (ModelSource& source : sources) {
    Slot& slot = slots_.emplace_back();
    slot.bytes = source.bytes;
    slot.source = std::move(source);
  }
}

ModelHost::ModelHost(std::string name, LoadedModel model) {
  Slot& slot = slots_.emplace_back();
  model.name = name;
  slot.source.name = std::move(name);
  slot.bytes = model.bytes;
  slot.measured = true;
  slot.model = std::make_unique<const LoadedModel>(std::move(model));
}

ModelHost::~ModelHost() { stop(); }

uint64_t ModelHost::bytes(size_t model) const {
  const std::lock_guard lock(mutex_);
  return slots_[model].bytes;
}

void ModelHost::report(const std::string& what) const {
  try {
    if (options_.report) options_.report(what);
  } catch (const std::exception&) {  // the report is lost, but the model works
  }
}

// Under the mutex. The deleter of a lease takes no mutex, because it may run on the thread of the
// model's service, or here if there is no memory for the lease.
ModelHost::Lease ModelHost::lease_of(Slot& slot) {
  if (slot.model == nullptr) return nullptr;
  ++*slot.leases;
  return Lease(slot.model.get(), [leases = slot.leases](const LoadedModel*) { --*leases; });
}

ModelHost::Lease ModelHost::look(size_t model) {
  const std::lock_guard lock(mutex_);
  return lease_of(slots_[model]);
}

ModelHost::Lease ModelHost::use(size_t model) {
  const std::lock_guard lock(mutex_);
  slots_[model].last_use = ++uses_;
  return lease_of(slots_[model]);
}

// Under the mutex. Removes and returns the requests whose clients have left; the caller destroys
// them without the mutex. A model that no request waits for is not loaded.
std::vector<ModelHost::Waiting> ModelHost::take_left() {
  std::vector<Waiting> left;
  for (Slot& slot : slots_) {
    const auto gone =
        std::stable_partition(slot.waiting.begin(), slot.waiting.end(),
                              [](const Waiting& one) { return one.left == nullptr || !*one.left; });
    std::move(gone, slot.waiting.end(), std::back_inserter(left));
    slot.waiting.erase(gone, slot.waiting.end());
  }
  waiting_ -= left.size();
  std::erase_if(queue_, [](const Slot* slot) { return slot->waiting.empty(); });
  return left;
}

void ModelHost::when_loaded(size_t model, Ready ready, Left left) {
  Slot& slot = slots_[model];
  std::vector<Waiting> gone;
  std::unique_lock lock(mutex_);
  slot.last_use = ++uses_;
  if (Lease lease = lease_of(slot)) {
    lock.unlock();
    return ready(std::move(lease));
  }
  if (waiting_ == options_.most_waiting) gone = take_left();
  if (stopping_ || waiting_ == options_.most_waiting) {
    lock.unlock();
    return ready(busy("too many requests wait for models to be loaded; try again later"));
  }
  if (!loader_.joinable()) loader_ = base::start_thread("the models", [this] { work(); });
  const bool is_first = slot.waiting.empty();
  slot.waiting.reserve(slot.waiting.size() + 1);  // before the queue changes, because it may throw
  if (is_first) queue_.push_back(&slot);
  slot.waiting.push_back({std::move(ready), std::move(left)});
  ++waiting_;
  work_.notify_one();
}

void ModelHost::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_one();
  if (loader_.joinable()) {
    if (options_.give_up_load) options_.give_up_load();
    loader_.join();
  }
  for (Slot& slot : slots_) slot.waiting.clear();
}

base::Status<> ModelHost::load(size_t model) {
  const ApiResult<Lease> loaded = load_guarded(slots_[model]);
  if (!loaded.ok()) return base::Error{loaded.error().message};
  return Done{};
}

void ModelHost::work() noexcept {
  while (true) {
    Slot* slot = nullptr;
    std::vector<Waiting> waiting;
    {
      std::unique_lock lock(mutex_);
      work_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) return;
      waiting = take_left();
      if (queue_.empty()) continue;
      slot = queue_.front();
      queue_.pop_front();
    }
    const ApiResult<Lease> loaded = load_guarded(*slot);
    waiting.clear();
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      waiting.swap(slot->waiting);
      waiting_ -= waiting.size();
    }
    answer_all(waiting, loaded);
  }
}

void ModelHost::answer_all(const std::vector<Waiting>& waiting,
                           const ApiResult<Lease>& loaded) const noexcept {
  if (!loaded.ok()) report(loaded.error().message);
  for (const Waiting& one : waiting) {
    try {
      one.ready(loaded);
    } catch (const std::exception&) {  // the request's reply answers in its destructor
    }
  }
}

// An exception while a model is loaded, most likely for lack of memory, fails only that model.
ApiResult<ModelHost::Lease> ModelHost::load_guarded(Slot& slot) noexcept {
  try {
    return load_slot(slot);
  } catch (const std::bad_alloc&) {
    return no_memory_for(slot.source.name);
  } catch (const std::exception& error) {
    return cannot_load(slot.source.name, error.what());
  }
}

ApiResult<ModelHost::Lease> ModelHost::load_slot(Slot& slot) {
  {
    // A model stays loaded if all its clients left meanwhile, and new ones may wait for it.
    const std::lock_guard lock(mutex_);
    if (Lease lease = lease_of(slot)) return lease;
  }
  KVICK_TRY_VOID(wait_for_room(slot));
  base::Result<LoadedModel> loaded = slot.source.load();
  if (!loaded.ok()) return cannot_load(slot.source.name, loaded.error().message);
  auto model = std::make_unique<LoadedModel>(*std::move(loaded));
  model->name = slot.source.name;
  {
    const std::lock_guard lock(mutex_);
    slot.bytes = model->bytes;
    slot.measured = true;
  }
  KVICK_TRY_VOID(wait_for_room(slot));  // the model may be larger than expected
  report(fmt::format("loaded the model {}", model->name));
  const std::lock_guard lock(mutex_);
  slot.model = std::move(model);
  return lease_of(slot);
}

ApiStatus ModelHost::wait_for_room(const Slot& wanted) {
  const double until = base::steady_seconds() + options_.room_seconds;
  ApiStatus room = make_room(wanted);
  while (!room.ok() && room.error().status == 503 && base::steady_seconds() < until) {
    std::unique_lock lock(mutex_);
    if (work_.wait_for(lock, kRoomInterval, [&] { return stopping_; })) break;
    lock.unlock();
    room = make_room(wanted);
  }
  return room;
}

// Unloads idle models if that makes enough room; otherwise unloads nothing.
ApiStatus ModelHost::make_room(const Slot& wanted) {
  std::vector<std::unique_ptr<const LoadedModel>> unloaded;  // destroyed without the mutex
  {
    const std::lock_guard lock(mutex_);
    const uint64_t most = options_.max_bytes;
    // An estimate above the limit may be wrong: of a mixture of experts, not all experts come into
    // memory. So the load is tried.
    const uint64_t wants = wanted.measured ? wanted.bytes : std::min(wanted.bytes, most);
    if (wants > most)
      return cannot_load(
          wanted.source.name,
          fmt::format("it takes {:.0f} MB with its cache, and all models may take {:.0f} MB "
                      "(--models-memory)",
                      static_cast<double>(wants) / kMegabyte,
                      static_cast<double>(most) / kMegabyte));
    uint64_t held = wants, idle = 0;
    for (const Slot& slot : slots_) {
      if (slot.model == nullptr) continue;
      held += slot.bytes;
      if (*slot.leases == 0) idle += slot.bytes;
    }
    if (held - idle > most)
      return busy(fmt::format(
          "there is no room for the model {} while others answer requests; try again later",
          wanted.source.name));
    while (held > most) {
      Slot* const slot = oldest_idle();  // never null: under the mutex leases only end
      KVICK_CHECK(slot != nullptr, "{} bytes of models, no idle one", held);
      held -= slot->bytes;
      unloaded.push_back(std::move(slot->model));
    }
  }
  for (const auto& model : unloaded) report(fmt::format("unloads the model {}", model->name));
  return Done{};
}

// Under the mutex.
ModelHost::Slot* ModelHost::oldest_idle() {
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (slot.model == nullptr || *slot.leases > 0) continue;
    if (oldest == nullptr || slot.last_use < oldest->last_use) oldest = &slot;
  }
  return oldest;
}

}  // namespace kvick::server
