#include "train/trainer/run.h"

#include <filesystem>
#include <limits>

#include "train/files/binary_file.h"
#include "train/files/loss_curve.h"
#include "train/tasks/words.h"

namespace kvick::train {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

class Run {
 public:
  Run(const Settings& settings, const Data& data, const torch::Device& device,
      const RunOptions& options, const RunCalls& calls)
      : settings_(settings),
        data_(data),
        options_(options),
        calls_(calls),
        task_(make_task(settings, data)),
        trainer_(settings, *task_, device) {
    const Batch batch = task_->training(0);
    step_tokens_ = batch.rows * batch.tokens;
  }

  void resume(const Checkpoint& from) {
    trainer_.restore(from);
    log_ = from.log;
    before_ = from.seconds;
  }

  Checkpoint go() {
    start_ = written_ = calls_.seconds();
    first_step_ = trainer_.step();
    while (progress() < 1 && !calls_.stopped()) {
      trainer_.train(progress());
      if (trainer_.step() % options_.log_steps == 0) log(is_due(options_.held_out_steps));
      if (calls_.seconds() - written_ >= options_.every_seconds) write(true);
    }
    const bool ended = progress() >= 1;
    if (ended &&
        (log_.empty() || log_.back().step != trainer_.step() || !(log_.back().held_out >= 0)))
      log(true);
    return write(false);
  }

 private:
  bool is_due(uint64_t steps) const { return trainer_.step() % steps == 0; }
  double seconds() const { return before_ + calls_.seconds() - start_; }

  double progress() const {
    const double minutes = settings_.run.minutes;
    if (minutes > 0) return seconds() / (60 * minutes);
    return static_cast<double>(trainer_.step()) / static_cast<double>(settings_.run.steps);
  }

  void log(bool measures) {
    LogPoint point{
        .step = trainer_.step(), .loss = kNone, .held_out = kNone, .accuracy = kNone, .seconds = 0};
    // The log may already have a point for this step, without the held-out loss.
    if (!log_.empty() && log_.back().step == point.step) {
      point.loss = log_.back().loss;
      log_.pop_back();
    } else {
      point.loss = trainer_.take_loss();
    }
    if (measures) {
      const Measured held_out = trainer_.measure_held_out(options_.held_out_targets);
      point.held_out = held_out.loss;
      point.accuracy = held_out.accuracy;
    }
    point.seconds = seconds();
    log_.push_back(point);
    report(point);
  }

  void report(const LogPoint& point) const {
    const double spent = calls_.seconds() - start_;
    const auto tokens = static_cast<double>((trainer_.step() - first_step_) * step_tokens_);
    const double done = progress();
    calls_.report(
        {.point = point,
         .tokens_per_second = tokens / spent,
         .seconds_left = done > 0 ? seconds() * (1 - std::min(done, 1.0)) / done : kNone});
  }

  Checkpoint write(bool goes_on) {
    Checkpoint out = trainer_.checkpoint();
    out.log = log_;
    out.seconds = seconds();
    out.data_tokens = data_.tokens();
    if (data_.vocabulary() != nullptr) out.vocabulary = *data_.vocabulary();
    if (data_.answers != nullptr) add_words(out.vocabulary, *data_.answers);
    write_checkpoint(checkpoint_path(options_.folder), out);
    const ModelSettings& model = settings_.model;
    write_text(options_.folder + "/log.json", log_json(log_));
    write_text(options_.folder + "/summary.json", summary_json(out));
    write_text(options_.folder + "/loss.svg",
               loss_svg(log_, text_of(model.arch, model.has_memory() ? " " + model.update : "",
                                      ", ", settings_.run.task)));
    if (goes_on) written_ = calls_.seconds();
    return out;
  }

  const Settings& settings_;
  const Data& data_;
  const RunOptions& options_;
  const RunCalls& calls_;
  std::unique_ptr<Task> task_;
  Trainer trainer_;
  std::vector<LogPoint> log_;
  double before_ = 0, start_ = 0, written_ = 0;  // seconds: of earlier runs; on the clock
  uint64_t first_step_ = 0, step_tokens_ = 0;
};

void check_same(const Checkpoint& before, const Settings& settings, const Data& data) {
  const std::string other = differing(before.settings, settings);
  if (!other.empty())
    refuse("--resume continues with the settings of the earlier run, but these differ: ", other);
  if (before.data_tokens != data.tokens())
    refuse("--resume continues with the data of the earlier run, which had ", before.data_tokens,
           " tokens");
}

// Checks that all settings of the start model are kept, except the length of its windows.
void check_start(const Checkpoint& start, Settings settings, const Data& data) {
  settings.run = start.settings.run;
  settings.model.ctx = start.settings.model.ctx;
  settings.model.context = start.settings.model.context;
  const std::string other = differing(start.settings, settings);
  if (!other.empty())
    refuse("--start decides the shape of the model, but these options differ from it: ", other);
  // In a draft model's checkpoint, words follow the vocabulary (add_words).
  if (data.vocabulary() != nullptr && !start.vocabulary.bytes.starts_with(data.vocabulary()->bytes))
    refuse("the data has another vocabulary than the model of --start");
}

}  // namespace

std::string checkpoint_path(const std::string& folder) { return folder + "/checkpoint.kvc"; }

Checkpoint run_training(Settings settings, const Data& data, const torch::Device& device,
                        const RunOptions& options, const RunCalls& calls) {
  const bool reads = settings.run.task == "text" || settings.run.task == "answers";
  if (options.start != nullptr)
    settings.model.vocab = options.start->settings.model.vocab;  // may be padded
  else if (!options.resume)
    settings.model.vocab = reads && data.vocab() != 0 ? data.vocab() : settings.run.symbols;
  complete(settings);
  if (options.start != nullptr) check_start(*options.start, settings, data);
  const std::string path = checkpoint_path(options.folder);
  const bool exists = std::filesystem::exists(path);
  if (exists && !options.resume)
    refuse(path, " is there already: go on with --resume, or name another folder");
  if (!exists && options.resume) refuse(path, " is not there, so there is nothing to resume");
  std::filesystem::create_directories(options.folder);
  Run run(settings, data, device, options, calls);
  if (exists) {
    const Checkpoint before = read_checkpoint(path);
    check_same(before, settings, data);
    run.resume(before);
  } else if (options.start != nullptr) {
    run.resume(*options.start);
  }
  return run.go();
}

}  // namespace kvick::train
