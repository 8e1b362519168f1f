#include "train/trainer/commands.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>
#include <torch/cuda.h>

#include "train/files/export.h"
#include "train/trainer/check.h"
#include "train/trainer/run.h"

namespace kvick::train {
namespace {

volatile std::sig_atomic_t interrupted = 0;

torch::Device read_device(Options& options) {
  const std::string name = options.text("--device", torch::cuda::is_available() ? "cuda" : "cpu");
  const uint64_t threads = options.count("--threads", 0, 1, 4096);
  if (threads != 0) at::set_num_threads(static_cast<int>(threads));
  if (name == "cuda" && !torch::cuda::is_available())
    refuse("--device cuda: libtorch sees no GPU here; leave it out to train on the processor");
  if (name != "cuda" && name != "cpu") refuse("--device is ", name, "; there are cpu and cuda");
  return torch::Device(name);
}

double seconds_now() {
  using std::chrono::duration, std::chrono::steady_clock;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

std::string shown(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

// Returns a duration such as 1h02m or 4m05s.
std::string duration_of(double seconds) {
  if (!std::isfinite(seconds)) return "?";
  const auto whole = static_cast<long>(seconds);
  char text[48];
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%ldh%02ldm", whole / 3600, whole / 60 % 60);
  else
    std::snprintf(text, sizeof text, "%ldm%02lds", whole / 60, whole % 60);
  return text;
}

void print_standing(const Standing& at, bool asks) {
  std::string line = text_of("step ", at.point.step, "  loss ", shown(at.point.loss));
  if (!std::isnan(at.point.held_out)) line += "  held out " + shown(at.point.held_out);
  if (asks && !std::isnan(at.point.accuracy)) line += "  right " + shown(at.point.accuracy);
  std::fprintf(stderr, "%s  %.0f tokens/s  %s left\n", line.c_str(), at.tokens_per_second,
               duration_of(at.seconds_left).c_str());
}

// Exports the model. Returns the path, or why there is no file; the checkpoint is kept in either
// case.
std::string export_or_reason(const Checkpoint& checkpoint, const std::string& path, FileType type) {
  try {
    export_model(checkpoint, path, type, 0);
    return path;
  } catch (const Mistake& reason) {
    return text_of("no model file: ", reason.what());
  }
}

void print_trained(const Checkpoint& c, const std::string& exported, bool json) {
  const LogPoint last = c.log.empty() ? LogPoint{} : c.log.back();
  if (json)
    std::printf(
        "{\"steps\": %llu, \"seconds\": %.3f, \"parameters\": %zu, \"loss\": %s, "
        "\"best_held_out\": %s, \"accuracy\": %s}\n",
        static_cast<unsigned long long>(c.step), c.seconds, c.values.size(),
        std::isfinite(last.loss) ? shown(last.loss).c_str() : "null",
        std::isfinite(c.best_held_out) ? shown(c.best_held_out).c_str() : "null",
        std::isfinite(last.accuracy) ? shown(last.accuracy).c_str() : "null");
  else
    std::printf("%llu steps in %s, %zu parameters, best held-out loss %s\n%s\n",
                static_cast<unsigned long long>(c.step), duration_of(c.seconds).c_str(),
                c.values.size(), shown(c.best_held_out).c_str(), exported.c_str());
}

RunOptions read_run_options(Options& options) {
  RunOptions run;
  run.folder = options.text("-o", "");
  if (run.folder.empty()) refuse("-o FOLDER is missing: where checkpoint, log and model go");
  run.every_seconds = 60 * options.number("--every", run.every_seconds / 60, 0, 1e6);
  run.log_steps = options.count("--log-steps", run.log_steps, 1, 1 << 24);
  run.held_out_steps = options.count("--held-out-steps", run.held_out_steps, 1, 1 << 24);
  run.held_out_targets = options.count("--held-out-targets", run.held_out_targets, 1, 1 << 30);
  run.resume = options.flag("--resume");
  return run;
}

// Returns the settings of a run before its options.
Settings first_settings(const Kind& kind, const RunOptions& run) {
  Settings settings;
  if (kind.arch == "bct")  // these came nearest to rows (docs/results/README.md)
    settings.model = {.update = "gated", .read = "normed", .shortest = 1.5, .longest = 2000};
  if (kind.answers) {
    settings.run = {.task = "answers", .train = "blocks", .negatives = 4096, .weight_decay = 0.01};
    settings.model.ctx = 192;
  }
  if (kind.selects) {
    settings.run = {.batch = 1, .steps = 0, .warmup = 20, .lr = 1e-5, .weight_decay = 0};
    settings.model.ctx = 512;
  }
  if (run.start != nullptr) {
    const uint64_t ctx = settings.model.ctx;
    settings.model = run.start->settings.model;
    settings.model.ctx = ctx;
  }
  if (run.resume) settings = read_checkpoint(checkpoint_path(run.folder)).settings;
  if ((run.start != nullptr || run.resume) && settings.model.arch != kind.arch)
    refuse(run.resume ? run.folder : "--start", " holds a model of ", settings.model.arch,
           ", not of ", kind.arch);
  if (run.resume && (kind.answers != (settings.run.task == "answers") ||
                     kind.selects != (settings.model.rank > 0)))
    refuse(run.folder, " holds a run of another command");
  if (kind.selects != (settings.model.rank > 0))
    refuse(kind.selects ? "--start has no predictor; kvick train start --predictor adds one"
                        : "--start has a predictor, which only kvick train maple trains");
  settings.model.arch = kind.arch;
  return settings;
}

// The data file of a command: text or answers.
struct DataFile {
  std::optional<TokenData> text;
  std::optional<AnswerData> answers;
  Data data() const {
    return {.text = text ? &*text : nullptr, .answers = answers ? &*answers : nullptr};
  }
};

DataFile read_data(const Kind& kind, const std::string& path) {
  DataFile out;
  if (path.empty()) return out;
  if (kind.answers)
    out.answers = read_answers(path);
  else
    out.text = read_tokens(path);
  return out;
}

}  // namespace

int train_model(const Kind& kind, Options options) {
  RunOptions run = read_run_options(options);
  const std::string data_path = options.text("--data", ""), start = options.text("--start", "");
  const FileType type = file_type_of(options.text("--type", kind.answers ? "q8_0" : "f32"));
  const bool json = options.flag("--json"), quiet = options.flag("--quiet");
  const torch::Device device = read_device(options);
  std::optional<Checkpoint> begin;
  if (!start.empty() && !run.resume) begin = read_checkpoint(start);
  if (begin) run.start = &*begin;
  if ((kind.answers || kind.selects) && !begin && !run.resume)
    refuse(
        "--start FILE is missing: a model's layers to begin with, which kvick train start makes");
  Settings settings = read_settings(options, first_settings(kind, run));
  options.done();
  const DataFile data = read_data(kind, data_path);
  // One epoch: as many steps as the text has windows (MAPLE, section 4.1).
  if (settings.run.steps == 0 && kind.selects)
    settings.run.steps = std::max<uint64_t>(
        1, data.data().tokens() / std::max<uint64_t>(1, settings.model.ctx * settings.run.batch));
  std::signal(SIGINT, [](int) { interrupted = 1; });
  const bool asks = settings.run.task != "text";
  const RunCalls calls = {.seconds = seconds_now,
                          .report =
                              [&](const Standing& at) {
                                if (!quiet) print_standing(at, asks);
                              },
                          .stopped = [] { return interrupted != 0; }};
  const Checkpoint result = run_training(settings, data.data(), device, run, calls);
  print_trained(result, export_or_reason(result, run.folder + "/model.gguf", type), json);
  return interrupted != 0 ? 1 : 0;
}

int evaluate(Options options) {
  const Checkpoint checkpoint = read_checkpoint(options.next("the checkpoint"));
  const TokenData data = read_tokens(options.text("--data", ""));
  std::istringstream contexts(options.text("--contexts", "512,1024,2048,4096,8192"));
  const uint64_t most = options.count("--targets", 1 << 16, 1, 1 << 30);
  const std::string precision = options.text("--precision", "f32");
  const bool json = options.flag("--json");
  options.flag("--quiet");
  const torch::Device device = read_device(options);
  options.done();
  const ModelSettings& model = checkpoint.settings.model;
  if (data.vocab != model.vocab)
    refuse("the data has a vocabulary of ", data.vocab, " and the model one of ", model.vocab);
  Parameters weights(checkpoint.settings, device);
  {
    const at::NoGradGuard no_grad;
    Tensor values = weights.values();
    values.copy_(torch::tensor(checkpoint.best));
  }
  const Compute compute = {.type = type_of(precision, device),
                           .dropout = 0,
                           .chunk = 128,
                           .rows = rows_of(checkpoint.settings.run)};
  std::string list;
  for (std::string each; std::getline(contexts, each, ',');) {
    Options one({"--context", each});
    const uint64_t ctx = one.count("--context", 0, 1, 1 << 20);
    const Measured m = measure(weights, model, *windows_of(data, ctx, 1), most, compute);
    if (m.targets == 0)
      refuse("held-out text of ", data.held_out.size(), " tokens has no window of ", ctx);
    list += text_of(list.empty() ? "" : ", ", "{\"context\": ", ctx,
                    ", \"perplexity\": ", shown(std::exp(m.loss)), ", \"nll\": ", shown(m.loss),
                    ", \"tokens\": ", m.targets, "}");
    if (!json)
      std::printf("context %6llu  perplexity %s over %llu tokens\n",
                  static_cast<unsigned long long>(ctx), shown(std::exp(m.loss)).c_str(),
                  static_cast<unsigned long long>(m.targets));
  }
  if (json) std::printf("{\"contexts\": [%s]}\n", list.c_str());
  return 0;
}

int export_command(Options options) {
  const Checkpoint checkpoint = read_checkpoint(options.next("the checkpoint"));
  const std::string path = options.text("-o", "");
  if (path.empty()) refuse("-o FILE.gguf is missing");
  const FileType type = file_type_of(options.text("--type", "f32"));
  const uint64_t context = options.count("--ctx", 0, 1, 1 << 27);
  options.done();
  export_model(checkpoint, path, type, context);
  std::printf("%s\n", path.c_str());
  return 0;
}

int check_command(Options options) {
  const torch::Device device = read_device(options);
  const bool json = options.flag("--json"), quiet = options.flag("--quiet");
  options.done();
  bool ok = true;
  double largest = 0;
  for (const CheckResult& result : check_device(device)) {
    if (!json && !(quiet && result.ok()))
      std::printf("%-32s %.2e of at most %.0e: %s\n", result.what.c_str(), result.difference,
                  result.allowed, result.ok() ? "ok" : "WRONG");
    ok &= result.ok();
    largest = std::max(largest, result.difference);
  }
  if (json) std::printf("{\"ok\": %s, \"largest\": %.3e}\n", ok ? "true" : "false", largest);
  return ok ? 0 : 1;
}

}  // namespace kvick::train
