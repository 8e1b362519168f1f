#include "kv/slots/bounded_step.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace kvick::kv {
namespace {

// Most scores that a thread works on at once: half a megabyte, so that they, the values and the
// keys of a head fit into a second-level cache of 2 MiB at 2048 slots of 64 elements.
constexpr uint32_t kScoreFloats = 1 << 17;
constexpr uint32_t kLeastTokens = 8, kMostTokens = 64;
// A slot of the batch with at most this many tokens keeps their weights for commit(), which saves a
// pass over the keys in decoding.
constexpr uint32_t kFewTokens = 8;
static_assert(kFewTokens <= kLeastTokens);

}  // namespace

void Workers::for_each(size_t count, base::FunctionRef<void(size_t i, base::Arena& scratch)> body) {
  const auto part = [&](size_t begin, size_t end, unsigned worker) {
    for (size_t i = begin; i < end; ++i) {
      scratch_[worker].reset();
      body(i, scratch_[worker]);
    }
  };
  if (pool_ == nullptr) return part(0, count, 0);
  pool_->parallel_for(count, 1, part);
}

BoundedStep::BoundedStep(CheckedStore& store, std::vector<StepSlot> step_slots, const Setup& setup,
                         Workers& workers)
    : CheckedStep(store, std::move(step_slots)), setup_(setup), workers_(workers) {
  tokens_ = this->step_slots().back().first + this->step_slots().back().fresh;
  rows_ = std::make_unique_for_overwrite<float[]>(shape().layers * 2 * layer_floats());
  was_read_.resize(shape().layers);
  gates_.resize(shape().layers);
  carried_.resize(shape().layers);
  for (const StepSlot& step_slot : this->step_slots()) {
    few_first_.push_back(few_tokens_);
    if (step_slot.fresh <= kFewTokens) few_tokens_ += step_slot.fresh;
  }
  const size_t heads = size_t{shape().layers} * shape().kv_heads;
  few_ = std::make_unique_for_overwrite<float[]>(heads * few_tokens_ * few_floats());
}

bool BoundedStep::few(uint32_t slot) const { return step_slots()[slot].fresh <= kFewTokens; }

uint32_t BoundedStep::most_tokens(uint32_t group) const {
  const uint64_t fit = kScoreFloats / (uint64_t{stride()} * (1 + group));
  return static_cast<uint32_t>(std::clamp<uint64_t>(fit, kLeastTokens, kMostTokens));
}

void BoundedStep::gates(uint32_t layer, const float* gates) {
  check_layer(layer);
  KVICK_CHECK(!was_written(layer), "gates of layer {} come after its rows", layer);
  const uint32_t heads = shape().kv_heads;
  gates_[layer] = std::make_unique_for_overwrite<float[]>(heads * tokens_);
  for (uint32_t h = 0; h < heads; ++h)
    for (uint64_t t = 0; t < tokens_; ++t) gates_[layer][h * tokens_ + t] = gates[t * heads + h];
}

void BoundedStep::carry(uint32_t layer, const float* x) {
  check_layer(layer);
  KVICK_CHECK(slots().carried > 0, "a model of these slots carries nothing");
  const size_t floats = tokens_ * slots().carried;
  carried_[layer] = std::make_unique_for_overwrite<float[]>(floats);
  std::copy_n(x, floats, carried_[layer].get());
}

const float* BoundedStep::carried(uint32_t layer, uint32_t slot) const {
  check_layer(layer);
  KVICK_CHECK(slot < step_slots().size(), "slot {} of {}", slot, step_slots().size());
  KVICK_CHECK(slots().carried > 0, "a model of these slots carries nothing");
  return last_carried(layer, slot);
}

void BoundedStep::write_rows(uint32_t layer, const float* k, const float* v) {
  float* to = rows_.get() + size_t{layer} * 2 * layer_floats();
  std::memcpy(to, k, layer_floats() * sizeof(float));
  std::memcpy(to + layer_floats(), v, layer_floats() * sizeof(float));
}

void BoundedStep::view_rows(const Query&, base::Arena&, kernels::View&) {
  KVICK_CHECK(false, "view() of a strategy that keeps slots: read() them");
}

BoundedStep::WorkSpace BoundedStep::make_work_space(const Where& at, uint32_t tokens,
                                                    uint32_t group, base::Arena& scratch) const {
  const size_t queries = size_t{tokens} * group, rows = tokens + queries;
  return {.x = scratch.make<float>(rows * keys(at).inputs).data(),
          .scores = scratch.make<float>(rows * stride()).data(),
          .adds = scratch.make<float>(size_t{tokens} * shape().head_dim).data(),
          .inverse = scratch.make<float>(queries).data()};
}

// Fills the work space for these rows and, if queries.group is not 0, for their queries, in one
// pass over the keys.
void BoundedStep::weigh(const Where& at, const Rows& rows, const SlotQueries& queries,
                        const WorkSpace& work) const {
  const kernels::Table& kernels = this->kernels();
  const uint32_t dim = shape().head_dim, inputs = keys(at).inputs, n = rows.count;
  const uint32_t asking = n * queries.group;
  const auto put = [&](uint32_t i, const float* from) {
    float* to = work.x + size_t{i} * inputs;
    std::fill(std::copy_n(from, dim, to), to + inputs, 0.0F);
  };
  for (uint32_t t = 0; t < n; ++t) {
    put(t, row(at, false, rows.first + t));
    for (uint32_t g = 0; g < queries.group; ++g)
      put(n + t * queries.group + g, query(at, queries, rows.first + t) + size_t{g} * dim);
  }
  const kernels::Activations x = {
      .tokens = n + asking, .inputs = inputs, .x = work.x, .q = {}, .scale = {}, .sums = {}};
  kernels.matmul(keys(at), x, work.scores, stride(), 0, keys(at).panels());
  const auto sum = [&](uint32_t i) {
    return kernels.exp_row(work.scores + size_t{i} * stride(), slots().slots, slots().scale);
  };
  for (uint32_t t = 0; t < n; ++t) {
    const float inverse = 1 / sum(t);
    const float* v = row(at, true, rows.first + t);
    for (uint32_t d = 0; d < dim; ++d) work.adds[size_t{t} * dim + d] = v[d] * inverse;
  }
  for (uint32_t i = 0; i < asking; ++i) work.inverse[i] = 1 / sum(n + i);
}

// Returns a walk that adds these rows in order; they are the first ones in the work space.
kernels::MemoryWalk BoundedStep::walk_of(const Where& at, const Rows& rows,
                                         const WorkSpace& work) const {
  return {.slots = slots().slots,
          .head_dim = shape().head_dim,
          .tokens = rows.count,
          .first_read = rows.count,
          .stride = stride(),
          .from = values(at),
          .weights = work.scores,
          .adds = work.adds,
          .gates = gates_of(at, rows.first)};
}

// Completes the softmax of a walk's queries: divides by the sums of their scores.
void BoundedStep::divide(const kernels::MemoryWalk& walk, const float* inverse) const {
  for (uint32_t t = walk.first_read; t < walk.tokens; ++t)
    for (uint32_t g = 0; g < walk.group; ++g, ++inverse) {
      float* out = walk.out + (t - walk.first_read) * walk.out_stride + size_t{g} * walk.head_dim;
      for (uint32_t d = 0; d < walk.head_dim; ++d) out[d] *= *inverse;
    }
}

void BoundedStep::keep_few(const Where& at, const WorkSpace& work) {
  const size_t fresh = step_slots()[at.slot].fresh;
  std::copy_n(work.scores, fresh * stride(), few_weights(at));
  std::copy_n(work.adds, fresh * shape().head_dim, few_adds(at));
}

void BoundedStep::read_chain(const Where& at, const SlotQueries& queries, base::Arena& scratch) {
  const uint32_t fresh = step_slots()[at.slot].fresh;
  const uint32_t most = std::min(fresh, most_tokens(queries.group));
  const WorkSpace work = make_work_space(at, most, queries.group, scratch);
  // The values so far, if the tokens do not fit into one walk.
  float* now = fresh > most ? scratch.make<float>(head_floats()).data() : nullptr;
  for (uint32_t first = 0; first < fresh; first += most) {
    const uint32_t n = std::min(most, fresh - first);
    weigh(at, {first, n}, queries, work);
    kernels::MemoryWalk walk = walk_of(at, {first, n}, work);
    walk.from = first == 0 ? walk.from : now;
    walk.to = first + n < fresh ? now : nullptr;
    walk.first_read = 0;
    walk.group = queries.group;
    walk.probs = work.scores + size_t{n} * stride();
    walk.out = queries.out + out_place(at, queries, first);
    walk.out_stride = size_t{shape().kv_heads} * queries.group * shape().head_dim;
    kernels().walk_memory(walk);
    divide(walk, work.inverse);
  }
  if (few(at.slot)) keep_few(at, work);
}

// Reads a tree: each token gets its own walk over copies of the weights of the tokens on its path.
void BoundedStep::read_tree(const Where& at, const SlotQueries& queries, base::Arena& scratch) {
  const uint32_t fresh = step_slots()[at.slot].fresh, dim = shape().head_dim;
  const WorkSpace work = make_work_space(at, fresh, queries.group, scratch);
  weigh(at, {0, fresh}, queries, work);
  WorkSpace path = {.x = nullptr,
                    .scores = scratch.make<float>(size_t{fresh} * stride()).data(),
                    .adds = scratch.make<float>(size_t{fresh} * dim).data(),
                    .inverse = nullptr};
  const float* const gates = gates_of(at, 0);
  float* path_gates = gates != nullptr ? scratch.make<float>(fresh).data() : nullptr;
  for (uint32_t t = 0; t < fresh; ++t) {
    const std::span<const uint32_t> rows = queries.paths[at.slot][t];
    KVICK_CHECK(!rows.empty() && rows.back() == t, "a path of {} tokens that does not end at {}",
                rows.size(), t);
    for (size_t i = 0; i < rows.size(); ++i) {
      std::copy_n(work.scores + size_t{rows[i]} * stride(), stride(), path.scores + i * stride());
      std::copy_n(work.adds + size_t{rows[i]} * dim, dim, path.adds + i * dim);
      if (gates != nullptr) path_gates[i] = gates[rows[i]];
    }
    kernels::MemoryWalk walk = walk_of(at, {0, static_cast<uint32_t>(rows.size())}, path);
    walk.gates = path_gates;
    walk.first_read = walk.tokens - 1;
    walk.group = queries.group;
    walk.probs = work.scores + (fresh + size_t{t} * queries.group) * stride();
    walk.out = queries.out + out_place(at, queries, t);
    kernels().walk_memory(walk);
    divide(walk, work.inverse + size_t{t} * queries.group);
  }
  if (few(at.slot)) keep_few(at, work);
}

void BoundedStep::read(uint32_t layer, const SlotQueries& queries) {
  check_layer(layer);
  KVICK_CHECK(was_written(layer), "layer {} is read before it is written", layer);
  KVICK_CHECK(!was_read_[layer], "layer {} is read twice", layer);
  KVICK_CHECK(queries.group > 0, "{} queries a token", queries.group);
  KVICK_CHECK(queries.paths.empty() || queries.paths.size() == step_slots().size(),
              "paths of {} slots in a batch of {}", queries.paths.size(), step_slots().size());
  const uint32_t heads = shape().kv_heads;
  workers_.for_each(step_slots().size() * heads, [&](size_t i, base::Arena& scratch) {
    const Where at = {layer, static_cast<uint32_t>(i / heads), static_cast<uint32_t>(i % heads)};
    if (queries.paths.empty() || queries.paths[at.slot] == nullptr)
      read_chain(at, queries, scratch);
    else
      read_tree(at, queries, scratch);
  });
  was_read_[layer] = true;
}

// Adds rows to the stored values; only commit does this.
void BoundedStep::absorb(const Where& at, const Rows& rows, base::Arena& scratch) {
  const auto add = [&](const Rows& some, const WorkSpace& work) {
    kernels::MemoryWalk walk = walk_of(at, some, work);
    walk.to = values(at);
    kernels().walk_memory(walk);
  };
  if (few(at.slot) && was_read_[at.layer])
    return add(rows, {.x = nullptr,
                      .scores = few_weights(at) + size_t{rows.first} * stride(),
                      .adds = few_adds(at) + size_t{rows.first} * shape().head_dim,
                      .inverse = nullptr});
  const uint32_t most = std::min(rows.count, most_tokens(0));
  const WorkSpace work = make_work_space(at, most, 0, scratch);
  for (uint32_t first = 0; first < rows.count; first += most) {
    const uint32_t n = std::min(most, rows.count - first);
    const Rows some = {rows.first + first, n};
    weigh(at, some, {}, work);
    add(some, work);
  }
}

// Stores what this row carries to the next step.
void BoundedStep::carry_on(uint32_t layer, uint32_t slot, uint32_t row) {
  const uint32_t floats = slots().carried;
  const float* of_layer = carried_[layer].get();
  if (of_layer == nullptr)
    std::fill_n(last_carried(layer, slot), floats, 0.0F);
  else
    std::copy_n(of_layer + (step_slots()[slot].first + row) * floats, floats,
                last_carried(layer, slot));
}

void BoundedStep::keep_rows(uint32_t slot, std::span<const uint32_t> rows) {
  std::vector<Rows> runs;
  for (const uint32_t row : rows) {
    if (runs.empty() || runs.back().first + runs.back().count != row) runs.push_back({row, 0});
    ++runs.back().count;
  }
  const uint32_t heads = shape().kv_heads;
  workers_.for_each(size_t{shape().layers} * heads, [&](size_t i, base::Arena& scratch) {
    const Where at = {static_cast<uint32_t>(i / heads), slot, static_cast<uint32_t>(i % heads)};
    for (const Rows& run : runs) absorb(at, run, scratch);
  });
  for (uint32_t layer = 0; layer < shape().layers && !rows.empty(); ++layer)
    carry_on(layer, slot, rows.back());
  step_slots()[slot].sequence->length += static_cast<uint32_t>(rows.size());
}

}  // namespace kvick::kv
