#include "lab/measure/sampled_decode.h"

#include <algorithm>
#include <filesystem>

#include "lab/measure/step_times.h"
#include "plan/forecast/attention_block.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kTimed = 4;  // steps timed at a depth

class Sampler {
 public:
  Sampler(engine::Engine& engine, kv::Store& store, uint32_t batch)
      : store_(store),
        executor_(engine.make_executor()),
        block_(engine.model().config(), store, executor_.workspace()) {
    // Use a new library: the engine's own has already compiled products for other cells.
    if (engine.library() != nullptr) executor_.workspace().library = &library_;
    for (uint32_t i = 0; i < batch; ++i) seqs_.push_back(store.open({}).seq);
    tokens_.resize(batch);
    wanted_.resize(batch);
    for (uint32_t i = 0; i < batch; ++i) wanted_[i] = i;
  }

  // Times these tokens, ascending, each as its own step. An untimed step precedes each of them, so
  // that it runs under the usual conditions and what the token before it needs is already compiled.
  base::Status<kv::Shortage> run(std::span<const uint32_t> tokens) {
    for (const uint32_t token : tokens) {
      const uint32_t length = store_.length(seqs_[0]);
      if (length + 1 < token) {
        KVICK_TRY_VOID(block_.fill(seqs_, token - 2 - length));
        KVICK_TRY_VOID(step());
      }
      KVICK_TRY(const StepTime time, step());
      times_.push_back(time);
    }
    return base::Done{};
  }
  const std::vector<StepTime>& times() const { return times_; }

 private:
  base::Result<StepTime, kv::Shortage> step() {
    std::vector<model::Slot> slots;
    const uint32_t past = store_.length(seqs_[0]);
    const uint32_t vocab = executor_.model().config().vocab;
    for (uint32_t i = 0; i < seqs_.size(); ++i) {
      tokens_[i] = static_cast<kv::Token>((past + 7 * i) % vocab);
      slots.push_back({.seq = seqs_[i],
                       .past = past,
                       .tokens = {&tokens_[i], 1},
                       .parents = {},
                       .reusable = false});
    }
    const kv::Usage before = store_.usage();
    const double compiled = library_.compiled().seconds;
    StepTime time = {.token = past + 1};
    double then = base::steady_seconds();
    const auto lap = [&](double& to) {
      const double now = base::steady_seconds();
      to = now - then;
      then = now;
    };
    KVICK_TRY(model::Executor::Step step, executor_.begin(store_, {.slots = slots}));
    lap(time.begin);
    step.forward(wanted_);
    lap(time.forward);
    step.commit(step.all());
    lap(time.commit);
    time.compile = library_.compiled().seconds - compiled;
    time.forward -= time.compile;
    const kv::Usage after = store_.usage();
    time.grew = after.allocated_bytes != before.allocated_bytes ||
                after.copied_bytes != before.copied_bytes;
    return time;
  }

  kv::Store& store_;
  kernels::BucketAttention library_;
  model::Executor executor_;
  plan::AttentionBlock block_;
  std::vector<kv::SeqId> seqs_;
  std::vector<kv::Token> tokens_;
  std::vector<uint32_t> wanted_;
  std::vector<StepTime> times_;
};

// Replaces r=auto by its number: a sequence's first growth allocates r rows.
base::Result<kv::Spec> with_numbers(const engine::Engine& engine, const engine::KvOptions& kv) {
  kv::Spec spec = kv.spec;
  const auto r = spec.options.find("r");
  if (r == spec.options.end() || r->second != "auto") return spec;
  KVICK_TRY(const kv::Cost cost, engine.cost(kv, {.tokens = 1}));
  r->second = std::to_string(cost.fast_bytes / engine.store_info(kv).token_bytes());
  return spec;
}

base::Result<Served> served_at(const Bench& bench, const engine::Engine& engine,
                               const engine::KvOptions& kv, const DecodePoint& point) {
  if (engine.store_info(kv).groups.size() > 1)
    return base::fail(
        "this experiment needs layers that are all alike, and this model's differ: measure it with "
        "kvick bench");
  KVICK_TRY(kv::Spec spec, with_numbers(engine, kv));
  IntervalProbe probe({.spec = std::move(spec),
                       .head_dim = engine.model().config().heads_layer().k_dim,
                       .max_tokens = point.tokens},
                      bench.pool, bench.kernels);
  Served served;
  KVICK_TRY(served.growth, probe.memory(point.depth + 1));
  if (engine.library() != nullptr) {
    KVICK_TRY(served.product, probe.bucket(point.depth + 1));
  }
  return served;
}

Json json_of(std::span<const StepTime> times, const Served& served, uint32_t depth) {
  const StepTime step = share_of(times, served, depth);
  return {{"begin_s", step.begin},
          {"forward_s", step.forward},
          {"commit_s", step.commit},
          {"compile_s", step.compile},
          {"step_s", step.all()},
          {"growing_step_s", step_of(times, served.growth.first).all()},
          {"growth_tokens", served.growth.tokens()},
          {"compile_tokens", served.product.tokens()}};
}

}  // namespace

Cell cell_of(const Bench& bench, const DecodePoint& point) {
  const std::string model = std::filesystem::path(bench.model_path).stem().string();
  return {.key = fmt::format("{} N={} B={} {} {} at {}", model, point.tokens, point.batch,
                             point.spec, point.attention, point.depth),
          .what = {{"model", model},
                   {"strategy", point.spec},
                   {"attention", point.attention},
                   {"tokens", point.tokens},
                   {"batch", point.batch},
                   {"depth", point.depth},
                   {"kv_type", "f32"}}};
}

DecodePoint point_of(const Cell& cell) {
  return {.spec = cell.what["strategy"].get<std::string>(),
          .attention = cell.what["attention"].get<std::string>(),
          .tokens = cell.what["tokens"].get<uint32_t>(),
          .batch = cell.what["batch"].get<uint32_t>(),
          .depth = cell.what["depth"].get<uint32_t>()};
}

std::vector<Cell> decode_cells(const Bench& bench, std::span<const Way> ways,
                               const DecodePoint& like, std::span<const uint32_t> depths) {
  std::vector<Cell> cells;
  for (const uint32_t depth : depths)
    for (const Way& way : ways)
      cells.push_back(cell_of(bench, {.spec = way.spec,
                                      .attention = way.attention,
                                      .tokens = like.tokens,
                                      .batch = like.batch,
                                      .depth = depth}));
  return cells;
}

std::vector<const Measured*> matching(std::span<const Measured> all, const Json& what) {
  std::vector<const Measured*> found;
  for (const Measured& one : all) {
    bool same = true;
    for (const auto& [name, value] : what.items())
      same = same && one.cell.what.contains(name) && one.cell.what[name] == value;
    if (same) found.push_back(&one);
  }
  return found;
}

base::Result<Json> measure_decode(const Bench& bench, const DecodePoint& point) {
  if (point.depth + 2 > point.tokens)
    return base::fail("a context of {} tokens has no two steps to time at depth {}", point.tokens,
                      point.depth);
  KVICK_TRY(
      engine::Engine * engine,
      bench.model(point.attention == "bmm" ? engine::Attention::kBmm : engine::Attention::kFused));
  KVICK_TRY(engine::KvOptions kv, engine::parse_kv_options(point.spec, "f32"));
  kv.max_tokens = point.tokens;
  kv.max_bytes = base::available_memory_bytes();
  KVICK_TRY(const std::unique_ptr<kv::Store> store, engine->make_store(kv));
  KVICK_TRY(const Served served, served_at(bench, *engine, kv, point));
  Sampler sampler(*engine, *store, point.batch);
  const Interval steps = {.first = point.depth + 1,
                          .last = std::min(point.depth + kTimed, point.tokens)};
  const auto done = sampler.run(tokens_to_time(served, engine->library() != nullptr, steps));
  if (!done.ok())
    return base::fail("{} with {} sequences of {} tokens: {}; take less with --batch or --ctx",
                      point.spec, point.batch, point.depth, done.error().what);
  Json json = json_of(sampler.times(), served, point.depth);
  json["allocated_bytes"] = store->usage().allocated_bytes;
  return json;
}

std::vector<uint32_t> sample_depths(uint32_t from, uint32_t to, uint32_t count) {
  std::vector<uint32_t> depths;
  const uint64_t span = to - from;
  for (uint64_t i = 0; i < count; ++i) {
    const auto depth = static_cast<uint32_t>(from + span * (2 * i + 1) / (2 * count));
    if (depths.empty() || depths.back() != depth) depths.push_back(depth);
  }
  return depths;
}

DecodeSeconds sum_over(std::span<const Measured* const> cells, uint32_t tokens) {
  DecodeSeconds sum;
  if (cells.empty()) return sum;
  const double each = static_cast<double>(tokens) / static_cast<double>(cells.size());
  for (const Measured* cell : cells) {
    sum.begin += each * cell->median("begin_s");
    sum.forward += each * cell->median("forward_s");
    sum.commit += each * cell->median("commit_s");
    sum.compile += each * cell->median("compile_s");
  }
  return sum;
}

base::Result<std::vector<Cell>> WholeContext::cells() {
  KVICK_TRY_VOID(require_model(bench_, name_));
  return decode_cells(bench_, ways_, {.tokens = tokens_, .batch = batch_},
                      sample_depths(0, tokens_, kDepths));
}

base::Result<Json> WholeContext::measure(const Cell& cell) {
  return measure_decode(bench_, point_of(cell));
}

base::Status<> require_model(const Bench& bench, std::string_view experiment) {
  if (bench.model_path.empty()) return base::fail("{} needs a model: -m MODEL", experiment);
  return base::Done{};
}

bool fits_memory(const Bench& bench, std::string_view what, uint64_t bytes) {
  // A cache that grows by copying holds its old and its new memory at once.
  const uint64_t most = base::available_memory_bytes() / 20 * 9;
  if (bytes > most)
    bench.note(fmt::format("{}: {:.1f} GB of rows, and there is room for {:.1f}: left out", what,
                           static_cast<double>(bytes) / 1e9, static_cast<double>(most) / 1e9));
  return bytes <= most;
}

std::string sampling_note(uint32_t depths) {
  return fmt::format("sampled: {} steps at each of {} depths, growth and compiling charged evenly",
                     kTimed, depths);
}

}  // namespace kvick::lab
