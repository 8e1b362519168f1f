#include "cli/options/watch_flags.h"

#include <mutex>
#include <random>

#include "cli/terminal/version.h"
#include "server/watch/otlp_exporter.h"

namespace kvick::cli {
namespace {

using server::LogLevel;

std::function<void(const std::string&)> says_to(const std::shared_ptr<server::EventLog>& log,
                                                std::string_view event) {
  return [log, event](const std::string& what) { log->write({.name = event, .message = what}); };
}

base::Result<LogLevel> level_of(const WatchFlags& flags) {
  if (flags.level.empty())
    return flags.format == server::LogFormat::kJson ? LogLevel::kInfo : LogLevel::kNotice;
  for (const LogLevel level :
       {LogLevel::kError, LogLevel::kWarning, LogLevel::kNotice, LogLevel::kInfo, LogLevel::kDebug})
    if (flags.level == server::log_level_name(level)) return level;
  return base::fail("--log-level {}: choose error, warning, notice, info or debug", flags.level);
}

}  // namespace

void add_watch_flags(const Command& command, WatchFlags& flags) {
  const char* group = "Observing";
  command
      .add_choice<server::LogFormat>(
          "--log-format", flags.format,
          {{"text", server::LogFormat::kText}, {"json", server::LogFormat::kJson}},
          "lines of the log on stderr: for people, or a JSON object each")
      .in_group(group);
  command
      .add_option("--log-level", flags.level,
                  "what is logged: error, warning, notice, info (each request) or debug (requests "
                  "for /health and /metrics too); default: notice, with --log-format json info")
      .suggests({"error", "warning", "notice", "info", "debug"})
      .in_group(group);
  command
      .add_flag("--debug", flags.debug,
                "show the requests that run, and the last ones that ended, at /debug/requests")
      .in_group(group);
  command
      .add_option("--otlp", flags.otlp,
                  "send a trace of each request to this OpenTelemetry collector: http://HOST:4318 "
                  "(default: none)")
      .in_group(group);
}

void Watch::say(std::string_view event, const std::string& what) const {
  log->write({.name = event, .message = what});
}

std::function<void(const std::string&)> Watch::says(std::string_view event) const {
  return says_to(log, event);
}

base::Result<std::unique_ptr<Watch>> open_watch(const WatchFlags& flags) {
  auto watch = std::make_unique<Watch>();
  KVICK_TRY(const LogLevel level, level_of(flags));
  std::optional<server::OtlpOptions> otlp;
  if (!flags.otlp.empty()) {
    KVICK_TRY(otlp, server::read_otlp_address(flags.otlp));
  }
  watch->log =
      std::make_shared<server::EventLog>(server::LogOptions{.format = flags.format, .most = level});
  std::shared_ptr<server::SpanSink> spans;
  if (otlp) {
    otlp->version = program_version();
    otlp->report = says_to(watch->log, "traces");
    spans = std::make_shared<server::OtlpExporter>(*std::move(otlp));
  }
  std::random_device device;
  const auto random = std::make_shared<std::mt19937_64>(uint64_t{device()} << 32 | device());
  watch->id_seed = device();
  base::install_crash_report(program_version());
  base::set_crash_notes(&watch->crash_notes);
  watch->book = std::make_shared<server::RequestBook>(
      server::BookOptions{.log = watch->log, .spans = std::move(spans), .random = [random] {
                            return (*random)();
                          }});  // the book calls it under its mutex
  return watch;
}

}  // namespace kvick::cli
