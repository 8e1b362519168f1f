// kvick train TASK: learns or measures something once for a model and keeps it in a file.

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/options/print_json.h"
#include "cli/train/train_answers.h"
#include "cli/train/train_distil.h"
#include "cli/train/train_duo.h"
#include "cli/train/train_importance.h"
#include "cli/train/train_kvzap.h"
#include "cli/train/train_kvzip.h"
#include "cli/train/train_model.h"
#include "cli/train/train_pca.h"
#include "cli/train/train_start.h"
#include "cli/train/train_text.h"
#include "cli/train/train_types.h"
#include "engine/eval/measure_ranges.h"

namespace kvick::cli {
namespace {

struct RangesFlags : TextFlags {
  uint32_t most = 0, window = 512;
  double margin = 0.1;
};

float largest(const std::vector<float>& list) {
  return *std::max_element(list.begin(), list.end());
}

void print_result(const RangesFlags& flags, const engine::Ranges& ranges, const Common& common) {
  const float keys = largest(ranges.heads.k), values = largest(ranges.heads.v);
  if (common.json)
    print_json({{"output", flags.output},
                {"tokens", ranges.tokens},
                {"layers", ranges.model.layers},
                {"kv_heads", ranges.model.kv_heads},
                {"margin", ranges.margin},
                {"largest_key", keys},
                {"largest_value", values}});
  else
    fmt::print(
        "{}: ranges of {} layers of {} KV heads over {} tokens, of keys up to {:.4g}, of values up "
        "to {:.4g}\nuse: --kv-type static8:{} or static16:{}\n",
        flags.output, ranges.model.layers, ranges.model.kv_heads, ranges.tokens, keys, values,
        flags.output, flags.output);
}

base::Result<int> train_ranges(const RangesFlags& flags, const Common& common) {
  KVICK_TRY(const OpenText text, open_text(flags, common));
  const auto measure = [&](const Report& report) {
    return engine::measure_ranges(
        *text.engine, text.tokens,
        {.window = flags.window, .most = flags.most, .margin = flags.margin, .progress = report});
  };
  KVICK_TRY(const engine::Ranges ranges, with_progress("reading " + flags.file, common, measure));
  KVICK_TRY_VOID(engine::write_ranges(flags.output, ranges));
  print_result(flags, ranges, common);
  return 0;
}

void add_ranges(const Command& train, const Common& common) {
  const Command command = train.add_command(
      "ranges", "how large keys and values become on a text, for --kv-type static8 and static16");
  auto flags = std::make_shared<RangesFlags>();
  add_text_flags(command, *flags);
  add_output(command, *flags, "the file to write, NAME.kvr");
  command.add_option("--tokens", flags->most, "only the first N tokens (default: all)");
  command.add_option("--window", flags->window, "tokens that are read as one sequence")
      .shows_default()
      .in_range(1, 1 << 20);
  command
      .add_option("--margin", flags->margin,
                  "share by which ranges are wider than the values seen: 0.1 for a tenth")
      .shows_default();
  command.runs([&common, flags] { return train_ranges(*flags, common); });
}

}  // namespace

void add_train(const Command& app, const Common& common) {
  const Command command =
      app.add_command("train", "train a small model, or measure what a cache needs to know of one");
  command.needs_command();
  add_ranges(command, common);
  add_types(command, common);
  add_importance(command, common);
  add_distil(command, common);
  add_predictor(command, common);
  add_pca(command, common);
  add_kvzap(command, common);
  add_kvzip(command, common);
  add_duo(command, common);
  add_model_training(command, common);
  add_start(command, common);
  add_answers(command, common);
}

}  // namespace kvick::cli
