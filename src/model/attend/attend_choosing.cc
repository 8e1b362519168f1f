// Attention over rows that a policy chooses by the queries. With few views, a worker that finds no
// view left to choose rows for reads the rows of views that are ready, while others still choose.

#include <algorithm>
#include <atomic>
#include <vector>

#include "model/attend/attend.h"

namespace kvick::model {
namespace {

// The chunks of one view. `memory` has a Partial for each.
struct alignas(64) ChosenView {
  std::atomic<bool> made{false};
  std::atomic<uint32_t> next{0};  // chunk
  uint32_t chunks = 0;
  float* memory = nullptr;

  // Takes some of the chunks, fewer towards the end. They follow each other, because reading one
  // prefetches the next one's rows; so few takes of many chunks waste less: with half as many at a
  // time and single ones at the end, attention of `quest` took a twentieth longer. Returns false if
  // none are left.
  bool take(uint32_t workers, uint32_t& begin, uint32_t& end) {
    const uint32_t taken = next.load(std::memory_order_relaxed);
    if (taken >= chunks) return false;
    constexpr uint32_t kLeast = 4;
    const uint32_t some = std::max(kLeast, (chunks - taken) / workers);
    begin = next.fetch_add(some, std::memory_order_relaxed);
    end = std::min(begin + some, chunks);
    return begin < chunks;
  }
};

}  // namespace

bool BatchAttention::chooses_few() const {
  const std::vector<Task>& tasks = plan_->tasks;
  if (!facets_.per_query || gives_probs() || workspace_.library != nullptr ||
      tasks.size() >= size_t{2} * workspace_.pool.size())
    return false;
  for (size_t i = 1; i < tasks.size(); ++i)
    if (tasks[i].view == tasks[i - 1].view) return false;
  return true;
}

void BatchAttention::run_choosing() {
  const std::vector<Task>& tasks = plan_->tasks;
  const unsigned workers = workspace_.pool.size();
  std::vector<ChosenView> views(tasks.size());
  std::atomic<size_t> next_view{0};
  std::atomic<uint32_t> made{0};
  std::atomic<bool> failed{false};
  const auto make = [&](size_t i, unsigned worker) {
    ChosenView& view = views[i];
    try {
      make_view(tasks[i].view, worker);
      view.chunks = kernels::chunk_count(views_[tasks[i].view], queries(tasks[i]));
      const size_t floats = view.chunks * partial_floats(queries_of(tasks[i]));
      view.memory = workspace_.scratch[worker].make<float>(floats).data();
      view.made.store(true, std::memory_order_release);
    } catch (...) {
      failed = true;
      made.fetch_add(1, std::memory_order_release);
      made.notify_all();
      throw;
    }
    made.fetch_add(1, std::memory_order_release);
    made.notify_all();
  };
  const auto read_some = [&](size_t i) {
    ChosenView& view = views[i];
    uint32_t begin = 0, end = 0;
    if (!view.made.load(std::memory_order_acquire) || !view.take(workers, begin, end)) return false;
    const uint32_t n = queries_of(tasks[i]);
    for (uint32_t chunk = begin; chunk < end; ++chunk)
      attend_chunk(tasks[i], queries(tasks[i]), chunk,
                   partial_at(view.memory + chunk * partial_floats(n), n), nullptr);
    return true;
  };
  workspace_.pool.parallel_for(workers, 1, [&](size_t, size_t, unsigned worker) {
    while (true) {
      const uint32_t seen = made.load(std::memory_order_acquire);
      if (const size_t i = next_view.fetch_add(1); i < tasks.size()) {
        make(i, worker);
        continue;
      }
      if (failed) return;
      size_t turn = 0;  // a worker begins with another view than the others
      while (turn < tasks.size() && !read_some((worker + turn) % tasks.size())) ++turn;
      if (turn < tasks.size()) continue;
      if (seen == tasks.size()) return;
      made.wait(seen, std::memory_order_acquire);
    }
  });
  for (size_t i = 0; i < tasks.size(); ++i)
    merge_chunks(tasks[i], views[i].memory, views[i].chunks);
}

void BatchAttention::merge_chunks(const Task& task, float* memory, uint32_t chunks) {
  const uint32_t n = queries_of(task);
  const kernels::Partial state = partial_at(memory, n);
  for (uint32_t chunk = 1; chunk < chunks; ++chunk)
    kernels_.merge(state, partial_at(memory + chunk * partial_floats(n), n), n, numbers_->v_dim);
  finish(task, state);
}

}  // namespace kvick::model
