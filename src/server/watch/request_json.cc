#include "server/watch/request_json.h"

#include <cmath>

namespace kvick::server {
namespace {

double milliseconds(double seconds) { return std::round(seconds * 1e6) / 1e3; }

void add_text(Json& json, const char* name, const std::string& text) {
  if (!text.empty()) json[name] = text;
}

void add_times(Json& json, const RequestFacts& facts) {
  const engine::JobTimes& times = facts.times;
  if (times.submitted && times.started)
    json["queue_ms"] = milliseconds(*times.started - *times.submitted);
  const std::optional<double> first = facts.first_text ? facts.first_text : times.first_token;
  if (first) json["first_token_ms"] = milliseconds(*first - facts.began);
  json["total_ms"] = milliseconds(facts.ended - facts.began);
}

// The sums over the sequences of a request's jobs. A job without a sequence still waits.
struct Held {
  engine::JobState state = engine::JobState::kWaiting;
  uint64_t prompt = 0, read = 0, cached = 0, answer = 0, bytes = 0;
  std::optional<double> queue_seconds;
  std::string strategy;
};

Held held_by(const RequestFacts& facts, const engine::CacheState* cache) {
  Held held;
  if (cache == nullptr) return held;
  for (const engine::JobId id : facts.jobs) {
    bool first = true;
    for (const engine::SequenceState& one : cache->sequences) {
      if (one.job != static_cast<uint64_t>(id)) continue;
      held.state = std::max(held.state, one.state);
      held.bytes += one.bytes;
      if (one.store < cache->stores.size()) held.strategy = cache->stores[one.store].strategy;
      if (!std::exchange(first, false)) continue;
      held.prompt += one.prompt_tokens;
      held.read += std::min(one.tokens, one.prompt_tokens);
      held.cached += one.cached_tokens;
      held.answer += one.answer_tokens;
      held.queue_seconds = one.queue_seconds;
    }
  }
  return held;
}

Json running_json(const RequestFacts& facts, const RequestLists& lists) {
  const Held held = held_by(facts, lists.cache(facts.model));
  Json json = {{"id", facts.id}, {"method", facts.method}, {"route", facts.route}};
  add_text(json, "client", facts.client);
  add_text(json, "model", facts.model);
  add_text(json, "adapter", facts.adapter);
  // A request without jobs is still being planned, or waits for its model to load.
  json["state"] = facts.jobs.empty() ? "planned" : engine::job_state_name(held.state);
  json["priority"] = facts.priority;
  json["age_ms"] = milliseconds(lists.now - facts.began);
  json["queue_ms"] = milliseconds(held.queue_seconds.value_or(lists.now - facts.began));
  json["prompt_tokens"] = std::max(held.prompt, facts.planned_tokens);
  json["read_tokens"] = held.read;
  json["cached_tokens"] = held.cached;
  json["answer_tokens"] = held.answer;
  json["row_bytes"] = held.bytes;
  add_text(json, "strategy", held.strategy);
  return json;
}

}  // namespace

Json request_json(const RequestFacts& facts) {
  Json json = Json::object();
  add_text(json, "id", facts.id);
  json["status"] = facts.status;
  add_text(json, "model", facts.model);
  add_text(json, "adapter", facts.adapter);
  if (!facts.jobs.empty()) {
    json["prompt_tokens"] = facts.prompt_tokens;
    json["cached_tokens"] = facts.cached_tokens;
    json["answer_tokens"] = facts.answer_tokens;
    if (facts.preemptions > 0) json["preemptions"] = facts.preemptions;
  }
  add_times(json, facts);
  add_text(json, "finish", facts.finish);
  add_text(json, "client", facts.client);
  add_text(json, "error_code", facts.error_code);
  add_text(json, "error_field", facts.error_field);
  add_text(json, "error", facts.error);
  add_text(json, "trace", facts.trace);
  return json;
}

Json requests_json(const RequestLists& lists) {
  Json running = Json::array(), ended = Json::array();
  for (const RequestFacts& facts : lists.running)
    if (facts.generates) running.push_back(running_json(facts, lists));
  for (const RequestFacts& facts : lists.ended) {
    Json json = {{"method", facts.method}, {"route", facts.route}};
    json.update(request_json(facts));
    json["ended_ms_ago"] = milliseconds(lists.now - facts.ended);
    ended.push_back(std::move(json));
  }
  return {{"running", std::move(running)}, {"ended", std::move(ended)}};
}

}  // namespace kvick::server
