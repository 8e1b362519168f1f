// kvick embed: embeds texts, one line of JSON each.

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <memory>
#include <span>

#include "cli/commands/commands.h"
#include "cli/options/engine_options.h"
#include "cli/options/pooling_flag.h"
#include "engine/serving/engine_thread.h"

namespace kvick::cli {
namespace {

using base::Result;

// Texts that are submitted together. It is less than the number of jobs that the service lets wait.
constexpr size_t kBatch = 256;

struct EmbedFlags {
  EngineFlags engine;
  std::optional<engine::Pooling> pooling;
  uint32_t dimensions = 0;
  bool plain = false;  // do not normalise the vectors
  std::vector<std::string> texts;
};

class Embedder {
 public:
  Embedder(const engine::Engine& engine, engine::EngineThread& service, const EmbedFlags& flags)
      : engine_(engine),
        service_(service),
        pooling_(engine::pooling_of(engine.model().config(), flags.pooling)),
        form_({.dimensions = flags.dimensions, .normalised = !flags.plain}) {}

  // Embeds the texts and, once all are done, prints their lines in order.
  base::Status<> print(std::span<const std::string> texts);

 private:
  base::Status<> submit(const std::string& text, engine::JobOutcome& outcome);

  const engine::Engine& engine_;
  engine::EngineThread& service_;
  const engine::Pooling pooling_;
  const engine::EmbeddingForm form_;
  size_t printed_ = 0;
};

base::Status<> Embedder::submit(const std::string& text, engine::JobOutcome& outcome) {
  engine::Job job;
  job.prompt = engine_.tokenizer().encode(text, true, true);
  if (job.prompt.empty()) return base::fail("it is empty: there is nothing to read");
  job.pooling = pooling_;
  job.on_end = [&outcome](const engine::JobOutcome& end) { outcome = end; };
  const auto submitted = service_.submit(std::move(job));
  if (!submitted.ok()) return base::Error{submitted.error().message};
  return base::Done{};
}

base::Status<> Embedder::print(std::span<const std::string> texts) {
  std::vector<engine::JobOutcome> outcomes(texts.size());
  base::Status<> submitted = base::Done{};
  size_t count = 0;
  while (count < texts.size() && submitted.ok()) {
    submitted = submit(texts[count], outcomes[count]);
    count += submitted.ok() ? 1 : 0;
  }
  service_.wait();  // also after an error: jobs submitted before it still write to their outcomes
  for (size_t i = 0; i < count; ++i, ++printed_) {
    if (outcomes[i].error)
      return base::fail("text {}: {}", printed_ + 1, outcomes[i].error->message);
    engine::give_form(form_, outcomes[i].embedding);
    fmt::print("{{\"index\":{},\"tokens\":{},\"embedding\":[{}]}}\n", printed_,
               outcomes[i].prompt_tokens, fmt::join(outcomes[i].embedding, ","));
  }
  if (!submitted.ok()) return base::fail("text {}: {}", printed_ + 1, submitted.error().message);
  return base::Done{};
}

base::Status<> print_lines(std::istream& in, Embedder& embedder) {
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(in, line)) {
    lines.push_back(std::move(line));
    if (lines.size() < kBatch) continue;
    KVICK_TRY_VOID(embedder.print(lines));
    lines.clear();
  }
  return embedder.print(lines);
}

Result<int> embed(const EmbedFlags& flags, const Common& common) {
  engine::EngineThreadOptions options;
  KVICK_TRY(options.batch.kv, kv_options(flags.engine));
  options.batch.kv_bytes = std::exchange(options.batch.kv.max_bytes, UINT64_MAX);
  EngineFlags engine_flags = flags.engine;
  engine_flags.encoders = true;
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(engine_flags, common));
  const model::Model& model = engine->model();
  if (engine::pooling_of(model.config(), flags.pooling) == engine::Pooling::kRank &&
      model.scores_pairs())
    return base::fail(
        "{} scores pairs of texts and gives no embeddings: serve it and use /v1/rerank, or give "
        "--pooling last, mean or cls",
        model.config().name);
  const uint32_t width = model.config().dim;
  if (flags.dimensions > width)
    return base::fail("--dimensions is {}, but the model's embeddings have {}", flags.dimensions,
                      width);
  KVICK_TRY(const auto service, engine::EngineThread::make(*engine, options));
  Embedder embedder(*engine, *service, flags);
  if (flags.texts.empty()) KVICK_TRY_VOID(print_lines(std::cin, embedder));
  for (std::span<const std::string> left = flags.texts; !left.empty();) {
    const size_t count = std::min(kBatch, left.size());
    KVICK_TRY_VOID(embedder.print(left.first(count)));
    left = left.subspan(count);
  }
  return 0;
}

}  // namespace

void add_embed(const Command& app, const Common& common) {
  const Command command = app.add_command(
      "embed", "turn texts into vectors: one line of JSON per text, in the order of the texts");
  auto flags = std::make_shared<EmbedFlags>();
  add_engine_flags(command, flags->engine);
  add_packed_flags(command, flags->engine);
  add_rank_flags(command, flags->engine);
  command.add_option("text", flags->texts, "the texts (default: the lines of stdin)");
  add_pooling_flag(command, flags->pooling);
  command
      .add_option("--dimensions", flags->dimensions,
                  "keep only the first N numbers of each vector (default: all)")
      .in_range(1, 1'000'000);
  command.add_flag("--no-normalize", flags->plain,
                   "print vectors as the model gives them (default: scaled to length 1)");
  command.runs([&common, flags] { return embed(*flags, common); });
}

}  // namespace kvick::cli
