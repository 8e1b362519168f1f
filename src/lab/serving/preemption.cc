// preemption: the time lost by serving with less memory than the requests would take together: the
// same jobs with all the memory that they need and with shares of it.

#include <filesystem>
#include <map>
#include <unistd.h>

#include "engine/prefix/prefix_files.h"
#include "lab/measure/replay.h"
#include "lab/measure/sampled_decode.h"

namespace kvick::lab {
namespace {

constexpr uint32_t kJobs = 32;
// Answers are several times longer than the scheduler plans ahead for, so memory runs out.
constexpr uint32_t kPrompt = 96, kAnswer = 288;
constexpr double kShares[] = {1, 0.9, 0.8, 0.7, 0.6, 0.5};
struct Kind {
  const char* name;
  const char* spec;
  bool files;  // rows of preempted jobs are restored from files
};
constexpr Kind kKinds[] = {{"paged", "paged", false},
                           {"paged, files", "paged", true},
                           {"virtual", "virtual", false},
                           {"bmc:r=64", "bmc:r=64", false}};

// A folder for the files of one run, removed after it.
class Folder {
 public:
  Folder()
      : path_(std::filesystem::temp_directory_path() /
              fmt::format("kvick-preemption-{}", getpid())) {}
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class Preemption final : public Experiment {
 public:
  explicit Preemption(const Bench& bench)
      : bench_(bench),
        prompt_(bench.prompt != 0 ? bench.prompt : kPrompt),
        answer_(bench.answer != 0 ? bench.answer : kAnswer),
        jobs_(bench.prompts != 0 ? bench.prompts : kJobs, {.prompt = prompt_, .answer = answer_}) {}

  base::Result<std::vector<Cell>> cells() override {
    KVICK_TRY_VOID(require_model(bench_, "preemption"));
    std::vector<Cell> cells;
    for (const Kind& kind : kKinds)
      for (const double share : kShares)
        cells.push_back({.key = fmt::format("{} {}", kind.name, share),
                         .what = {{"kind", kind.name},
                                  {"strategy", kind.spec},
                                  {"files", kind.files},
                                  {"share", share},
                                  {"jobs", jobs_.size()},
                                  {"prompt", prompt_},
                                  {"answer", answer_}}});
    return cells;
  }

  base::Result<Json> measure(const Cell& cell) override {
    KVICK_TRY(engine::Engine * engine, bench_.model(engine::Attention::kFused));
    const auto strategy = cell.what["strategy"].get<std::string>();
    engine::SchedulerOptions options;
    KVICK_TRY(options.kv, engine::parse_kv_options(strategy, ""));
    options.kv.max_tokens = prompt_ + answer_;
    uint64_t& needed = needed_bytes_[cell.what["kind"].get<std::string>()];
    if (needed == 0) {
      KVICK_TRY(const Replayed all, replay(*engine, options, jobs_));
      needed = all.peak_bytes;
    }
    const Folder folder;
    if (cell.what["files"].get<bool>()) {
      KVICK_TRY(options.files, engine::PrefixFiles::open(
                                   {.folder = folder.path(), .max_bytes = uint64_t{4} << 30}));
    }
    if (const double share = cell.what["share"].get<double>(); share < 1)
      options.kv_bytes = static_cast<uint64_t>(share * static_cast<double>(needed));
    KVICK_TRY(const Replayed run, replay(*engine, options, jobs_));
    const engine::Metrics& metrics = run.metrics;
    return Json{
        {"seconds", run.seconds},     {"peak_bytes", run.peak_bytes},
        {"sequences", run.sequences}, {"preemptions", metrics.swaps + metrics.recomputations},
        {"swaps", metrics.swaps},     {"recomputed_tokens", metrics.recomputed_tokens}};
  }

  Findings findings(std::span<const Measured> all) override {
    Findings findings;
    Table table = {.title = fmt::format("{} jobs of {} + {} tokens; memory as a share of what they "
                                        "take together",
                                        jobs_.size(), prompt_, answer_),
                   .columns = {"strategy", "memory", "seconds", "time lost %", "preemptions",
                               "by files", "tokens computed again", "sequences at once"},
                   .rows = {}};
    Chart chart = {.name = "preemption",
                   .title = "Time lost with less memory than the requests take together",
                   .x_label = "memory, as a share of what they take",
                   .y_label = "% of the time with all of it",
                   .series = {},
                   .bars = {}};
    Json rows = Json::array();
    for (const Kind& kind : kKinds) {
      Series series = {.name = kind.name, .points = {}};
      double whole = 0;
      for (const Measured* one : matching(all, {{"kind", kind.name}})) {
        const double share = one->cell.what["share"].get<double>(),
                     seconds = one->median("seconds");
        if (share == 1) whole = seconds;
        const double lost = whole > 0 ? seconds / whole - 1 : 0;
        table.rows.push_back({kind.name, fmt::format("{:.1f}", share),
                              fmt::format("{:.3f}", seconds), fmt::format("{:.1f}", 100 * lost),
                              fmt::format("{:.0f}", one->median("preemptions")),
                              fmt::format("{:.0f}", one->median("swaps")),
                              fmt::format("{:.0f}", one->median("recomputed_tokens")),
                              fmt::format("{:.1f}", one->median("sequences"))});
        rows.push_back({{"strategy", kind.name}, {"share", share}, {"time_lost", lost}});
        series.points.push_back({share, 100 * lost});
      }
      chart.series.push_back(std::move(series));
    }
    findings.summary = {{"cells", rows}};
    findings.tables.push_back(std::move(table));
    findings.charts.push_back(std::move(chart));
    return findings;
  }

 private:
  Bench bench_;
  uint32_t prompt_, answer_;  // tokens
  std::vector<ReplayJob> jobs_;
  std::map<std::string, uint64_t> needed_bytes_;  // by kind: peak of all jobs together
};

}  // namespace

std::unique_ptr<Experiment> make_preemption(const Bench& bench) {
  return std::make_unique<Preemption>(bench);
}

}  // namespace kvick::lab
