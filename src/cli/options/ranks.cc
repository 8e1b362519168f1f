#include "cli/options/ranks.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <thread>
#include <utility>

#include "engine/core/rank_stores.h"
#include "model/core/step_message.h"
#include "model/ranks/mpi.h"

namespace kvick::cli {
namespace {

// Delay before this rank ends, so that running requests still receive their error.
constexpr auto kLastWords = std::chrono::milliseconds(700);

void end_all(model::Ranks* ranks) {
  bool all_are_there = true;
  if (ranks->leads()) try {
      ranks->tell(model::MessageWriter(model::Order::kEnd).bytes());
    } catch (const std::exception&) {
      all_are_there = false;
    }
  delete ranks;
  if (all_are_there) model::end_mpi();
}

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "kvick: {}; this rank ends too\n", why);
  std::fflush(nullptr);
  model::abort_mpi(1);
}

}  // namespace

unsigned ranks_on_this_machine() {
  const char* const size = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  const unsigned long ranks = size != nullptr ? std::strtoul(size, nullptr, 10) : 1;
  return static_cast<unsigned>(std::max(1UL, ranks));
}

bool will_follow(const EngineFlags& flags) {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return flags.ranks && rank != nullptr && std::strcmp(rank, "0") != 0;
}

base::Result<RankStart> start_ranks(const EngineFlags& flags, const Common& common) {
  const unsigned started = model::ranks_started();
  if (!flags.ranks && started > 1)
    return base::fail(
        "mpirun has started {} processes: add --ranks, so that they run one model together",
        started);
  if (flags.pipeline && !flags.ranks)
    return base::fail("--pipeline says how --ranks divide a model: give both");
  if (flags.rank_format != model::WireFormat::kF32 && !flags.ranks)
    return base::fail(
        "--rank-activations is the type of what --ranks send each other: give both, or neither");
  if (!flags.ranks) return RankStart{};
  static bool joined = false;
  if (std::exchange(joined, true))
    return base::fail(
        "with --ranks the processes run one model; a second model cannot be loaded beside it");
  const auto lost = [](const std::string& why) {
    // Only the first call counts. Running requests receive their error before the process ends.
    static std::atomic<bool> ending = false;
    if (ending.exchange(true)) return;
    std::thread([why] {
      std::this_thread::sleep_for(kLastWords);
      give_up(why);
    }).detach();
  };
  KVICK_TRY(model::MpiStart start,
            model::start_mpi(
                {.seconds = flags.rank_seconds, .format = flags.rank_format, .on_lost = lost}));
  if (!common.quiet)
    for (const std::string& warning : start.warnings) fmt::print(stderr, "kvick: {}\n", warning);
  const unsigned threads = std::max(1U, base::available_cpus() / start.same_processors);
  return RankStart{.ranks = {start.ranks.release(), end_all}, .threads = threads};
}

base::Result<std::unique_ptr<engine::Engine>> join_ranks(
    std::shared_ptr<model::Ranks>& ranks, base::Result<std::unique_ptr<engine::Engine>> engine) {
  if (ranks == nullptr) return engine;
  try {
    const base::Status<> all = engine::agree_on_opening(*ranks, engine);
    if (ranks->leads()) {
      if (!all.ok()) return all.error();
      return engine;
    }
    // mpirun and a terminal send the signal to all ranks. Rank 0 finishes its requests and then
    // ends the others.
    std::signal(SIGINT, SIG_IGN);
    std::signal(SIGTERM, SIG_IGN);
    if (engine.ok())
      engine::follow(**engine,
                     [](const std::string& why) { fmt::print(stderr, "kvick: {}\n", why); });
    else  // rank 0 reports the error
      (void)ranks->hear();
  } catch (const model::RankLost& lost) {
    give_up(lost.what());
  }
  engine = base::Error{};
  ranks.reset();
  std::fflush(nullptr);
  std::_Exit(0);
}

}  // namespace kvick::cli
