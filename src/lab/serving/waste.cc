// waste: memory that strategies allocate but do not use while real requests come and go
// (PagedAttention's Figure 2). Lengths come from a trace; nothing is computed.

#include "kv/registry/registry.h"
#include "lab/core/experiment.h"
#include "lab/data/trace.h"

namespace kvick::lab {
namespace {

// Requests running at once, and tokens that each adds between two readings of the memory usage.
constexpr uint32_t kRunning = 64, kStride = 16;
// One layer and one head: the wasted share does not depend on their number.
constexpr kv::Shape kShape = {.layers = 1, .kv_heads = 1, .head_dim = 64, .max_tokens = 16384};
constexpr const char* kSpecs[] = {"upfront",        "bmc:r=512",      "bmc:r=64",
                                  "virtual",        "paged:block=8",  "paged:block=16",
                                  "paged:block=32", "paged:block=64", "paged:block=128"};

struct Running {
  kv::SeqId seq{};
  uint32_t left = 0;  // tokens still to be added
  uint32_t next = 0;  // tokens added in the next step
};

class Waste final : public Experiment {
 public:
  explicit Waste(const Bench& bench) : bench_(bench) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY(requests_, read_lengths(bench_.file, kShape.max_tokens));
    requests_ = spread_over(requests_, bench_.prompts);
    std::vector<Cell> cells;
    for (const char* spec : kSpecs)
      cells.push_back({.key = spec,
                       .what = {{"strategy", spec},
                                {"requests", requests_.size()},
                                {"running", kRunning},
                                {"context", kShape.max_tokens}}});
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(const kv::Spec spec, kv::parse_spec(cell.what["strategy"].get<std::string>()));
    kv::Setup setup;
    setup.shape = kShape;
    setup.compute.store_row = bench_.kernels.store_row;
    setup.compute.pool = &bench_.pool;
    KVICK_TRY(const std::unique_ptr<kv::Store> store, kv::make_store(spec, setup));
    double used = 0, allocated = 0, looks = 0;
    size_t next = 0;
    std::vector<Running> running;
    while (next < requests_.size() || !running.empty()) {
      for (; running.size() < kRunning && next < requests_.size(); ++next)
        running.push_back({.seq = store->open({}).seq,
                           .left = requests_[next].prompt + requests_[next].answer,
                           .next = requests_[next].prompt});
      if (auto done = step(*store, running); !done.ok())
        return base::fail("no room for {} requests: {}", running.size(), done.error().what);
      const kv::Usage usage = store->usage();
      used += static_cast<double>(usage.used_bytes);
      allocated += static_cast<double>(usage.allocated_bytes);
      ++looks;
      std::erase_if(running, [&](const Running& one) {
        if (one.left == 0) store->close(one.seq);
        return one.left == 0;
      });
    }
    return Json{{"waste", 1 - used / allocated},
                {"used_bytes", used / looks},
                {"allocated_bytes", allocated / looks}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("Memory of {} requests at a time, mean over {} requests",
                                        kRunning, requests_.size()),
                   .columns = {"strategy", "used MB", "allocated MB", "wasted %"},
                   .rows = {}};
    Chart chart = {.name = "waste",
                   .title = "Memory that is taken for running requests and not used",
                   .x_label = "strategy",
                   .y_label = "% of what is allocated",
                   .series = {{.name = "wasted", .points = {}}},
                   .bars = {}};
    findings.summary = Json::object();
    for (const Measured& one : all) {
      const double waste = 100 * one.median("waste");
      table.rows.push_back({one.cell.key, fmt::format("{:.2f}", one.median("used_bytes") / 1e6),
                            fmt::format("{:.2f}", one.median("allocated_bytes") / 1e6),
                            fmt::format("{:.2f}", waste)});
      std::string name = one.cell.key;
      if (const size_t equals = name.find('='); equals != std::string::npos)
        name = name.substr(0, name.find(':')) + " " + name.substr(equals + 1);
      chart.bars.push_back(name);
      chart.series[0].points.push_back({0, waste});
      findings.summary[one.cell.key] = one.median("waste");
    }
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  // Adds the next tokens of every running request.
  base::Status<kv::Shortage> step(kv::Store& store, std::vector<Running>& running) {
    std::vector<kv::Slot> slots;
    size_t rows = 0;
    for (const Running& one : running) {
      slots.push_back({.seq = one.seq, .fresh = one.next, .tokens = {}});
      rows += one.next;
    }
    if (row_.size() < rows * kShape.head_dim) row_.resize(rows * kShape.head_dim, 1.0F);
    KVICK_TRY(const std::unique_ptr<kv::Step> step, store.begin({.slots = slots}));
    step->write(0, row_.data(), row_.data());
    step->commit(kv::Kept::all({.slots = slots}));
    for (Running& one : running) {
      one.left -= one.next;
      one.next = std::min(one.left, kStride);
    }
    return base::Done{};
  }

  Bench bench_;
  std::vector<TraceRequest> requests_;
  std::vector<float> row_;
};

}  // namespace

std::unique_ptr<Experiment> make_waste(const Bench& bench) {
  return std::make_unique<Waste>(bench);
}

}  // namespace kvick::lab
