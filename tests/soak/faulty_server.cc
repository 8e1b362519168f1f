// A `kvick serve` for tools/soak whose prefix files fail at times: they are missing, read as
// damaged, cannot be written, or are written partially without an error.

#include <CLI/CLI.hpp>
#include <atomic>
#include <fmt/format.h>
#include <fstream>
#include <random>

#include "base/cores.h"
#include "base/text_file.h"
#include "engine/prefix/prefix_files.h"
#include "engine/serving/instances.h"
#include "kernels/table/table.h"
#include "server/api/serve.h"
#include "server/openai/answer_forms.h"

namespace kvick {
namespace {

namespace fs = std::filesystem;

struct Flags {
  std::string model, folder;
  uint64_t kv_memory = 0, folder_bytes = 0;
  uint32_t context = 0, max_queue = 256;
  double max_wait = 0;
  unsigned instances = 1;
  uint16_t port = 0;
  std::vector<std::string> client_kv;
  double faults = 0;
  uint32_t seed = 1;
};

// One object for each of the two threads that move files.
class Faults {
 public:
  Faults(double rate, uint32_t seed, std::atomic<uint64_t>& count)
      : random_(seed), rate_(rate), count_(count) {}
  // Returns which of `kinds` faults happens, or none.
  std::optional<unsigned> next(unsigned kinds) {
    if (std::uniform_real_distribution<>()(random_) >= rate_) return std::nullopt;
    ++count_;
    return static_cast<unsigned>(random_() % kinds);
  }
  size_t below(size_t n) { return random_() % n; }

 private:
  std::mt19937 random_;
  double rate_;
  std::atomic<uint64_t>& count_;
};

std::optional<std::string> read_badly(const fs::path& path, size_t max_bytes, Faults& faults) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (error || size > max_bytes) return std::nullopt;
  std::string bytes(size, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) return std::nullopt;
  const auto fault = faults.next(3);
  if (!fault || bytes.empty()) return bytes;
  if (*fault == 0) return std::nullopt;
  if (*fault == 1) bytes.resize(faults.below(bytes.size()));
  if (*fault == 2) bytes[faults.below(bytes.size())] ^= static_cast<char>(1 << faults.below(8));
  return bytes;
}

bool write_badly(const fs::path& path, std::string_view bytes, Faults& faults) {
  const auto fault = faults.next(3);
  if (fault && *fault == 0) return false;
  if (fault && *fault == 1) return true;  // the disk reports success but writes nothing
  if (fault) bytes = bytes.substr(0, faults.below(bytes.size()));
  return base::write_file(path, bytes).ok();
}

base::Result<std::shared_ptr<engine::PrefixTier>> open_files(const Flags& flags,
                                                             std::atomic<uint64_t>& count) {
  const auto reads = std::make_shared<Faults>(flags.faults, flags.seed, count);
  const auto writes = std::make_shared<Faults>(flags.faults, flags.seed + 1, count);
  engine::PrefixFilesOptions options;
  options.folder = flags.folder;
  options.max_bytes = flags.folder_bytes;
  options.read = [reads](const fs::path& path, size_t max_bytes) {
    return read_badly(path, max_bytes, *reads);
  };
  options.write = [writes](const fs::path& path, std::string_view bytes) {
    return write_badly(path, bytes, *writes);
  };
  KVICK_TRY(std::shared_ptr<engine::PrefixTier> files,
            engine::PrefixFiles::open(std::move(options)));
  return files;
}

base::Status<> serve(const Flags& flags) {
  std::atomic<uint64_t> faults = 0;
  KVICK_TRY(const auto teams, base::make_teams(base::available_cores(), flags.instances, 0));
  KVICK_TRY(const base::Isa isa, kernels::choose_isa());
  engine::EngineOptions engine_options;
  engine_options.model_path = flags.model;
  engine_options.isa = isa;
  engine_options.fingerprint = !flags.folder.empty();
  // The same as the real server, with which this one is compared.
  engine_options.prompt_arithmetic = engine::PromptArithmetic::kAuto;
  KVICK_TRY(const auto engine, engine::Engine::open(engine_options));
  engine::EngineThreadOptions options;
  KVICK_TRY(options.batch.kv, engine::parse_kv_options("paged", ""));
  options.batch.kv.max_tokens = flags.context;
  options.batch.kv_bytes = flags.kv_memory;
  options.most_waiting = flags.max_queue;
  options.most_wait_seconds = flags.max_wait;
  if (!flags.folder.empty()) {
    KVICK_TRY(options.batch.files, open_files(flags, faults));
  }
  KVICK_TRY(const auto service, engine::Instances::make(*engine, options, teams));
  server::ServeOptions network;
  network.network.port = flags.port;
  network.network.signals = true;
  network.model = "made";
  network.constraint = server::answer_forms(engine->tokenizer());
  network.on_listening = [](uint16_t port) {
    fmt::print("{{\"port\": {}}}\n", port);
    std::fflush(stdout);
  };
  KVICK_TRY_VOID(server::read_client_kv(flags.client_kv, network.limits));
  network.report = [](const std::string& what) { fmt::print(stderr, "broke: {}\n", what); };
  KVICK_TRY_VOID(server::serve(*engine, *service, std::move(network)));
  fmt::print("{{\"faults\": {}}}\n", faults.load());
  return base::Done{};
}

}  // namespace
}  // namespace kvick

int main(int argc, char** argv) {
  kvick::Flags flags;
  CLI::App app("a server whose prefix files fail");
  app.add_flag("--json");  // accepted but ignored: all output is JSON
  CLI::App* serve = app.add_subcommand("serve")->required();
  serve->add_option("--model", flags.model)->required();
  serve->add_option("--ctx", flags.context);
  serve->add_option("--port", flags.port);
  serve->add_option("--max-queue", flags.max_queue);
  serve->add_option("--max-wait", flags.max_wait);
  serve->add_option("--kv-memory", flags.kv_memory)->transform(CLI::AsSizeValue(false));
  serve->add_option("--kv-dir", flags.folder);
  serve->add_option("--kv-dir-size", flags.folder_bytes)->transform(CLI::AsSizeValue(false));
  serve->add_option("--instances", flags.instances);
  serve->add_option("--client-kv", flags.client_kv);
  serve->add_option("--faults", flags.faults, "share of reads and writes of files that fail");
  serve->add_option("--seed", flags.seed);
  CLI11_PARSE(app, argc, argv);
  const auto served = kvick::serve(flags);
  if (served.ok()) return 0;
  fmt::print(stderr, "faulty_server: {}\n", served.error().message);
  return 1;
}
