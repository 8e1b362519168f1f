#include "server/ops/metrics_text.h"

#include <fmt/format.h>
#include <iterator>
#include <optional>

namespace kvick::server {
namespace {

using engine::Histogram;

class Text {
 public:
  void head(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(out_), "# HELP kvick_{} {}\n# TYPE kvick_{} {}\n", name, help,
                   name, type);
  }
  template <typename T>
  void sample(std::string_view name, std::string_view labels, T value) {
    fmt::format_to(std::back_inserter(out_), "kvick_{}{} {}\n", name, labels, value);
  }
  template <typename T>
  void counter(std::string_view name, T value, std::string_view help) {
    head(name, "counter", help);
    sample(name, "", value);
  }
  template <typename T>
  void gauge(std::string_view name, T value, std::string_view help) {
    head(name, "gauge", help);
    sample(name, "", value);
  }
  void histogram(std::string_view name, const Histogram& histogram, std::string_view help) {
    head(name, "histogram", help);
    const std::string bucket = fmt::format("{}_bucket", name);
    uint64_t below = 0;  // a Prometheus bucket counts all values up to its bound
    for (size_t i = 0; i < Histogram::kBounds.size(); ++i)
      sample(bucket, fmt::format("{{le=\"{}\"}}", Histogram::kBounds[i]),
             below += histogram.counts[i]);
    sample(bucket, "{le=\"+Inf\"}", below + histogram.counts.back());
    sample(fmt::format("{}_sum", name), "", histogram.sum);
    sample(fmt::format("{}_count", name), "", below + histogram.counts.back());
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

void add_jobs(Text& text, const engine::Metrics& m) {
  text.head("jobs", "gauge", "Jobs now, by state.");
  text.sample("jobs", "{state=\"waiting\"}", m.waiting);
  text.sample("jobs", "{state=\"running\"}", m.running);
  text.sample("jobs", "{state=\"preempted\"}", m.preempted);
  text.gauge("job_tokens", m.job_tokens, "Tokens of all jobs now: prompts, and answers so far.");
  text.head("jobs_total", "counter", "Jobs that ended, by how they ended.");
  text.sample("jobs_total", "{end=\"finished\"}", m.finished);
  text.sample("jobs_total", "{end=\"cancelled\"}", m.cancelled);
  text.sample("jobs_total", "{end=\"failed\"}", m.failed);
  text.sample("jobs_total", "{end=\"refused\"}", m.refused);
  text.counter("prompt_tokens_total", m.prompt_tokens, "Tokens of prompts.");
  text.counter("cached_tokens_total", m.cached_tokens, "Prompt tokens found in the cache.");
  text.counter(
      "moved_tokens_total", m.moved_tokens,
      "Cached prompt tokens whose rows stood elsewhere in an earlier prompt (--reuse shift).");
  text.counter("read_again_tokens_total", m.read_again_tokens,
               "Prompt tokens computed again because no checkpoint was kept, though an earlier "
               "prompt began with them.");
  text.counter("generated_tokens_total", m.generated_tokens, "Tokens of answers.");
  text.counter("steps_total", m.steps, "Forward passes.");
  text.counter("step_tokens_total", m.step_tokens,
               "Tokens computed in forward passes, without draft tokens.");
  text.counter("drafted_tokens_total", m.drafted, "Draft tokens verified.");
  text.counter("accepted_tokens_total", m.accepted, "Draft tokens accepted.");
}

void add_times(Text& text, const engine::Metrics& m) {
  text.histogram("queue_seconds", m.queue, "Seconds from submitting a job to its first step.");
  text.histogram("first_token_seconds", m.first_token,
                 "Seconds from submitting a job to its first token.");
  text.histogram("between_tokens_seconds", m.between_tokens,
                 "Seconds between tokens of one answer.");
}

void add_preemption(Text& text, const engine::Metrics& m) {
  text.head("preemptions_total", "counter", "Preemptions of jobs, by how their rows come back.");
  text.sample("preemptions_total", "{how=\"swap\"}", m.swaps);
  text.sample("preemptions_total", "{how=\"recompute\"}", m.recomputations);
  text.counter("swapped_bytes_total", m.swapped_bytes,
               "Bytes of preempted jobs' rows that were moved in again.");
  text.counter("recomputed_tokens_total", m.recomputed_tokens,
               "Tokens computed again after preemptions.");
  text.counter("preemption_seconds_total", m.preemption_seconds, "Seconds lost to preemptions.");
}

void add_memory(Text& text, const engine::Metrics& m) {
  text.gauge("kv_limit_bytes", m.kv_limit_bytes, "Most memory for keys and values.");
  text.head("kv_bytes", "gauge", "Memory for keys and values, by what it holds.");
  text.sample("kv_bytes", "{what=\"used\"}", m.kv.used_bytes);
  text.sample("kv_bytes", "{what=\"allocated\"}", m.kv.allocated_bytes);
  text.sample("kv_bytes", "{what=\"wasted\"}", m.kv.wasted_bytes);
  text.sample("kv_bytes", "{what=\"shared\"}", m.kv.shared_bytes);
  text.sample("kv_bytes", "{what=\"cached\"}", m.kv.cached_bytes);
  text.sample("kv_bytes", "{what=\"slow\"}", m.kv.slow_bytes);
  text.sample("kv_bytes", "{what=\"draft\"}", m.draft_bytes);
  text.head("kv_slow_bytes_total", "counter", "Bytes moved between memory and the slower tier.");
  text.sample("kv_slow_bytes_total", "{way=\"read\"}", m.kv.slow_read_bytes);
  text.sample("kv_slow_bytes_total", "{way=\"written\"}", m.kv.slow_written_bytes);
  text.counter("kv_evicted_bytes_total", m.kv.evicted_bytes,
               "Bytes of cached rows that were evicted.");
  text.gauge("kv_checkpoints", m.kv.checkpoints,
             "Checkpoints: states from which later prompts can continue.");
  text.gauge("kv_checkpoint_bytes", m.kv.checkpoint_bytes, "Cached bytes of checkpoints.");
  text.counter("kv_resumed_total", m.kv.resumed, "Sequences that continued from a checkpoint.");
  text.counter("kv_copied_bytes_total", m.kv.copied_bytes,
               "Bytes of rows copied by growing or sharing.");
  text.gauge("kv_metadata_bytes", m.kv.metadata_bytes,
             "About what block tables and prefix trees take, outside the limit.");
  text.histogram("kv_reuse_age_seconds", m.reuse_age,
                 "Seconds since the last use of blocks that a prompt found in the cache.");
  text.gauge("kv_sequences", m.kv.sequences, "Sequences with rows now.");
}

// The mean lost attention is the sum divided by the count.
void add_checks(Text& text, const std::map<std::string, engine::Metrics::Checks>& checks) {
  if (checks.empty()) return;
  text.head("kv_select_lost_mass", "summary",
            "Attention that rows left out would have had, 0 to 1, in sampled exact checks.");
  for (const auto& [policy, one] : checks) {
    const std::string label = fmt::format("{{policy=\"{}\"}}", policy);
    text.sample("kv_select_lost_mass_sum", label, one.lost_mass);
    text.sample("kv_select_lost_mass_count", label, one.count);
  }
}

void add_experts(Text& text, const std::optional<model::ExpertStats>& experts) {
  if (!experts) return;
  text.gauge("expert_limit_bytes", experts->limit_bytes, "Most memory for experts.");
  text.gauge("expert_bytes", experts->resident_bytes, "Bytes of the experts in memory.");
  text.gauge("experts", experts->resident, "Experts in memory.");
  text.gauge("experts_on_disk", experts->all - experts->resident, "Experts on the disk only.");
  text.head("expert_uses_total", "counter",
            "Experts needed, counted once per step and layer, by where they were found.");
  text.sample("expert_uses_total", "{found=\"memory\"}", experts->hits);
  text.sample("expert_uses_total", "{found=\"disk\"}", experts->misses);
  text.gauge("expert_hit_rate", experts->hit_rate(),
             "Share of needed experts found in memory, 0 to 1.");
  text.counter("expert_read_bytes_total", experts->read_bytes,
               "Bytes of experts read from the disk.");
}

void add_files(Text& text, const engine::TierCounts& files) {
  text.gauge("kv_file_bytes", files.bytes, "Bytes of the files of the prefix cache.");
  text.gauge("kv_file_limit_bytes", files.limit_bytes,
             "Most bytes of the files of the prefix cache.");
  text.gauge("kv_file_blocks", files.files, "Files of the prefix cache, each a block of rows.");
  text.head("kv_file_events_total", "counter",
            "Reads and writes of files of the prefix cache, by outcome.");
  const std::pair<std::string_view, uint64_t> events[] = {{"hit", files.hits},
                                                          {"write", files.writes},
                                                          {"eviction", files.evictions},
                                                          {"torn", files.torn},
                                                          {"foreign", files.foreign},
                                                          {"missing", files.missing},
                                                          {"late", files.late},
                                                          {"failed_write", files.failed_writes},
                                                          {"dropped_write", files.dropped_writes}};
  for (const auto& [event, count] : events)
    text.sample("kv_file_events_total", fmt::format("{{event=\"{}\"}}", event), count);
}

void add_store(Text& text, const engine::TierCounts& store) {
  if (!store.in_use) return;
  text.gauge("kv_store_connected", store.connected ? 1 : 0,
             "1 if the shared store answers, 0 if not.");
  text.gauge("kv_store_seconds_per_byte", store.seconds_per_byte,
             "Seconds per byte of blocks recently read from the shared store.");
  text.head("kv_store_bytes_total", "counter",
            "Bytes of blocks read from and written to the shared store.");
  text.sample("kv_store_bytes_total", "{direction=\"read\"}", store.read_bytes);
  text.sample("kv_store_bytes_total", "{direction=\"written\"}", store.written_bytes);
  text.head("kv_store_events_total", "counter", "Blocks of the shared store, by outcome.");
  const std::pair<std::string_view, uint64_t> events[] = {{"found", store.found},
                                                          {"hit", store.hits},
                                                          {"write", store.writes},
                                                          {"torn", store.torn},
                                                          {"foreign", store.foreign},
                                                          {"missing", store.missing},
                                                          {"late", store.late},
                                                          {"failure", store.failures},
                                                          {"skipped", store.skipped},
                                                          {"full", store.full},
                                                          {"failed_write", store.failed_writes},
                                                          {"dropped_write", store.dropped_writes}};
  for (const auto& [event, count] : events)
    text.sample("kv_store_events_total", fmt::format("{{event=\"{}\"}}", event), count);
}

void add_handovers(Text& text, const engine::HandoverCounts& handovers) {
  text.head("handovers_total", "counter",
            "Prompts computed here for another process, and those that another computed.");
  text.sample("handovers_total", "{end=\"given\"}", handovers.given);
  text.sample("handovers_total", "{end=\"taken\"}", handovers.taken);
  text.sample("handovers_total", "{end=\"computed\"}", handovers.computed);
}

void add_instances(Text& text, std::span<const engine::Metrics> instances) {
  if (instances.empty()) return;
  const auto each = [&](std::string_view name, std::string_view what, auto value) {
    for (size_t i = 0; i < instances.size(); ++i)
      text.sample(name, fmt::format("{{instance=\"{}\"{}}}", i, what), value(instances[i]));
  };
  text.head("instance_jobs", "gauge", "Jobs now of each instance, by state.");
  each("instance_jobs", ",state=\"waiting\"", [](const auto& m) { return m.waiting; });
  each("instance_jobs", ",state=\"running\"", [](const auto& m) { return m.running; });
  each("instance_jobs", ",state=\"preempted\"", [](const auto& m) { return m.preempted; });
  text.head("instance_kv_bytes", "gauge", "Memory of each instance, by what it holds.");
  each("instance_kv_bytes", ",what=\"used\"", [](const auto& m) { return m.kv.used_bytes; });
  each("instance_kv_bytes", ",what=\"allocated\"",
       [](const auto& m) { return m.kv.allocated_bytes; });
  each("instance_kv_bytes", ",what=\"cached\"", [](const auto& m) { return m.kv.cached_bytes; });
  text.head("instance_jobs_finished_total", "counter", "Jobs that each instance finished.");
  each("instance_jobs_finished_total", "", [](const auto& m) { return m.finished; });
  text.head("instance_step_tokens_total", "counter", "Tokens that each instance computed.");
  each("instance_step_tokens_total", "", [](const auto& m) { return m.step_tokens; });
}

void add_network(Text& text, const NetworkCounters& n) {
  text.gauge("http_connections", n.open, "Connections now.");
  text.counter("http_connections_total", n.accepted, "Connections taken.");
  text.counter("http_requests_total", n.requests, "Requests, well-formed ones.");
  text.head("http_dropped_total", "counter", "Connections refused or ended, by reason.");
  text.sample("http_dropped_total", "{why=\"too_many\"}", n.refused);
  text.sample("http_dropped_total", "{why=\"timeout\"}", n.timed_out);
  text.sample("http_dropped_total", "{why=\"slow_reader\"}", n.slow);
  text.sample("http_dropped_total", "{why=\"malformed\"}", n.malformed);
}

void add_watch(Text& text, const WatchCounts& watch) {
  text.gauge("start_time_seconds", fmt::format("{:.3f}", watch.started),
             "When the server started, in seconds since 1970.");
  text.counter("log_dropped_lines_total", watch.dropped_lines,
               "Lines of the log dropped because they were not read in time.");
  if (!watch.traces) return;
  text.head("traces_total", "counter", "Requests with a trace for the collector, by outcome.");
  text.sample("traces_total", "{end=\"sent\"}", watch.spans.sent);
  text.sample("traces_total", "{end=\"failed\"}", watch.spans.failed);
  text.sample("traces_total", "{end=\"dropped\"}", watch.spans.dropped);
}

}  // namespace

std::string service_metrics_text(const engine::Metrics& metrics,
                                 std::span<const engine::Metrics> instances) {
  Text text;
  add_jobs(text, metrics);
  add_times(text, metrics);
  add_preemption(text, metrics);
  add_memory(text, metrics);
  add_checks(text, metrics.checks);
  add_experts(text, metrics.experts);
  add_files(text, metrics.files);
  add_store(text, metrics.store);
  add_handovers(text, metrics.handovers);
  add_instances(text, instances);
  return text.take();
}

std::string network_metrics_text(const NetworkCounters& network) {
  Text text;
  add_network(text, network);
  return text.take();
}

std::string watch_metrics_text(const WatchCounts& counts) {
  Text text;
  add_watch(text, counts);
  return text.take();
}

}  // namespace kvick::server
