// kvick bench: prefill and decode speed, and what the cache took for it.

#include <fmt/format.h>
#include <memory>

#include "cli/commands.h"
#include "cli/engine_options.h"
#include "cli/progress.h"
#include "engine/speed.h"

namespace kvick::cli {
namespace {

struct BenchFlags {
  EngineFlags engine;
  engine::SpeedOptions speed;
};

nlohmann::ordered_json to_json(const engine::Engine& engine, const BenchFlags& flags,
                               const engine::Speed& speed, unsigned threads) {
  const kv::Usage& usage = speed.usage;
  return {{"model", engine.model().config().name},
          {"kv_type", engine::kv_type_text(flags.speed.kv.k_type, flags.speed.kv.v_type)},
          {"threads", threads},
          {"isa", base::isa_name(engine.kernels().isa)},
          {"prompt", flags.speed.prompt},
          {"decode", flags.speed.decode},
          {"depth", flags.speed.depth},
          {"parallel", flags.speed.parallel},
          {"prefill_tok_s", engine::median(speed.prefill_tok_s)},
          {"decode_tok_s", engine::median(speed.decode_tok_s)},
          {"peak_rss_bytes", base::peak_rss_bytes()},
          {"file_bytes", engine.file_bytes()},
          {"weight_bytes", engine.model().weight_bytes()},
          {"kv",
           {{"strategy", spec_text(flags.speed.kv.spec)},
            {"used_bytes", usage.used_bytes},
            {"allocated_bytes", usage.allocated_bytes},
            {"wasted_bytes", usage.wasted_bytes},
            {"copied_bytes", usage.copied_bytes},
            {"page_bytes", usage.page_bytes}}},
          {"repeats", flags.speed.repeats},
          {"spread",
           {{"prefill", engine::spread(speed.prefill_tok_s)},
            {"decode", engine::spread(speed.decode_tok_s)}}}};
}

void print_table(const engine::Engine& engine, const BenchFlags& flags, const engine::Speed& speed,
                 unsigned threads) {
  const kv::Usage& usage = speed.usage;
  const auto mib = [](uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  fmt::print("{}, {} threads, {}, cache {} {}\n\n", engine.model().config().name, threads,
             base::isa_name(engine.kernels().isa), spec_text(flags.speed.kv.spec),
             engine::kv_type_text(flags.speed.kv.k_type, flags.speed.kv.v_type));
  const auto row = [](const std::string& what, const std::vector<double>& rates) {
    if (!rates.empty())
      fmt::print("{:<34} {:>10.1f} tokens/s   spread {:>4.1f} %\n", what, engine::median(rates),
                 100 * engine::spread(rates));
  };
  row(fmt::format("prefill {} at depth {}", flags.speed.prompt, flags.speed.depth),
      speed.prefill_tok_s);
  row(fmt::format("decode {} x {} at depth {}", flags.speed.parallel, flags.speed.decode,
                  flags.speed.depth),
      speed.decode_tok_s);
  fmt::print("cache: {:.2f} MiB used, {:.2f} MiB allocated, {:.2f} MiB wasted, {:.2f} MiB copied\n",
             mib(usage.used_bytes), mib(usage.allocated_bytes), mib(usage.wasted_bytes),
             mib(usage.copied_bytes));
  fmt::print("peak memory: {:.1f} MiB (weights {:.1f} MiB, file {:.1f} MiB)\n",
             mib(base::peak_rss_bytes()), mib(engine.model().weight_bytes()),
             mib(engine.file_bytes()));
}

base::Result<int> bench(BenchFlags& flags, const Common& common) {
  KVICK_TRY(flags.speed.kv, kv_options(flags.engine));
  KVICK_TRY(const std::unique_ptr<engine::Engine> engine, open_engine(flags.engine, common));
  Progress progress = stderr_progress(common.quiet);
  bool started = false;
  flags.speed.progress = [&](uint64_t done, uint64_t total) {
    if (!started) progress.start("measuring", Unit::kTokens, total);
    started = true;
    progress.update(done);
  };
  KVICK_TRY(const engine::Speed speed, engine::measure_speed(*engine, flags.speed));
  if (started) progress.finish();
  const unsigned threads = engine->pool().size();
  if (common.json)
    fmt::print("{}\n", to_json(*engine, flags, speed, threads)
                           .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  else
    print_table(*engine, flags, speed, threads);
  return 0;
}

}  // namespace

void add_bench(CLI::App& app, const Common& common, Run& chosen) {
  CLI::App* command =
      app.add_subcommand("bench", "prefill and decode speed, and the cache's memory");
  auto flags = std::make_shared<BenchFlags>();
  add_engine_flags(*command, flags->engine);
  command->add_option("-p,--prompt", flags->speed.prompt, "tokens of the prompt; 0: no prefill")
      ->capture_default_str();
  command->add_option("-n,--decode", flags->speed.decode, "tokens to generate; 0: no decode")
      ->capture_default_str();
  command->add_option("-d,--depth", flags->speed.depth, "tokens in the cache before")
      ->capture_default_str();
  command->add_option("-b,--parallel", flags->speed.parallel, "sequences that decode together")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  command->add_option("-r,--repeats", flags->speed.repeats, "timed rounds; the median is shown")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  command->callback([&common, &chosen, flags] {
    chosen = [&common, flags] {
      const auto status = bench(*flags, common);
      return status.ok() ? *status : refuse(status.error());
    };
  });
}

}  // namespace kvick::cli
