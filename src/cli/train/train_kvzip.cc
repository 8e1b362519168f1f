// kvick train kvzip: scores the rows of one document, with which many prompts begin.

#include "cli/train/train_kvzip.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "distil/kvzip.h"

#include "base/text_file.h"
#include "cli/options/print_json.h"
#include "cli/train/train_predictor.h"

namespace kvick::cli {
namespace {

struct KvzipFlags : PredictorFlags {
  distil::KvzipOptions options;
  bool raw = false, user = false;
};

base::Result<distil::Stands> stands_of(const KvzipFlags& flags, const engine::Engine& engine) {
  if (flags.raw && flags.user)
    return base::fail("--user needs the chat template that --raw switches off: give one of them");
  if (flags.user && !engine.has_chat_template())
    return base::fail("--user needs a chat template, and the model has none: leave it out");
  if (flags.raw || !engine.has_chat_template()) return distil::Stands::kRaw;
  return flags.user ? distil::Stands::kUser : distil::Stands::kSystem;
}

const char* name_of(distil::Stands stands) {
  if (stands == distil::Stands::kRaw) return "raw";
  return stands == distil::Stands::kUser ? "user" : "system";
}

void print_result(const KvzipFlags& flags, const distil::DocumentScores& made,
                  distil::Stands stands, const Common& common) {
  if (common.json) {
    print_json({{"output", flags.output},
                {"tokens", made.tokens},
                {"chunks", made.chunks},
                {"stands", name_of(stands)},
                {"unused", made.unused}});
    return;
  }
  constexpr const char* kWhere[] = {"a system message", "a user's message without a system message",
                                    "a prompt without a chat template"};
  fmt::print(
      "{}: scores of {} tokens, at the beginning of {}, repeated in {} chunks\n{:.0f} % of the "
      "rows of all KV heads never get a hundredth of a token's attention while the document is "
      "repeated\nuse: --kv-select kvzip:file={}\n",
      flags.output, made.tokens, kWhere[static_cast<size_t>(stands)], made.chunks,
      100 * made.unused, flags.output);
}

base::Result<int> train_kvzip(KvzipFlags& flags, const Common& common) {
  KVICK_TRY(const std::string text, base::read_text(flags.file));
  KVICK_TRY_VOID(check_output(flags.output));
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags.engine, common));
  KVICK_TRY(const distil::Stands stands, stands_of(flags, *engine));
  KVICK_TRY(const distil::Document document, distil::document_of(*engine, text, stands));
  const auto score = [&](const Report& report) {
    flags.options.progress = report;
    return distil::score_document(*engine, document, flags.options);
  };
  KVICK_TRY(const distil::DocumentScores made,
            with_progress("repeating " + flags.file, common, score));
  KVICK_TRY_VOID(write_made(flags, made, *engine));
  print_result(flags, made, stands, common);
  return 0;
}

}  // namespace

void add_kvzip(const Command& train, const Common& common) {
  const Command command = train.add_command(
      "kvzip",
      "score the rows of a document with which many prompts begin, for --kv-select kvzip, which "
      "drops most of them");
  auto flags = std::make_shared<KvzipFlags>();
  add_predictor_flags(command, *flags, "the document");
  command
      .add_option("--chunk", flags->options.chunk,
                  "tokens of the document that the model repeats at a time")
      .shows_default()
      .in_range(1, 1 << 20);
  command.add_flag("--user", flags->user,
                   "the document begins the user's message, and there is no system message "
                   "(default: it begins the system message)");
  command.add_flag("--raw", flags->raw,
                   "the document begins a prompt without a chat template, as in kvick run --raw");
  command.runs([&common, flags] { return train_kvzip(*flags, common); });
}

}  // namespace kvick::cli
