#include "server/watch/otlp_json.h"

#include <algorithm>
#include <fmt/format.h>

#include "server/request/json.h"

namespace kvick::server {
namespace {

// Two span kinds, and the status of a failed span.
constexpr int kServer = 2, kInternal = 1, kFailed = 2;

// Protocol buffers write 64-bit numbers as strings in JSON.
Json value_of(const std::string& text) { return {{"stringValue", text}}; }
Json value_of(uint64_t number) { return {{"intValue", std::to_string(number)}}; }
Json value_of(double number) { return {{"doubleValue", number}}; }

template <typename T>
void add(Json& attributes, const char* name, const T& value) {
  attributes.push_back({{"key", name}, {"value", value_of(value)}});
}

void add_text(Json& attributes, const char* name, const std::string& text) {
  if (!text.empty()) add(attributes, name, text);
}

std::string operation_of(const std::string& route) {
  if (route.find("embed") != std::string::npos) return "embeddings";
  if (route.find("rerank") != std::string::npos || route.find("score") != std::string::npos)
    return "rerank";
  const bool completes = route == "/v1/completions" || route == "/completion" ||
                         route == "/infill" || route == "/api/generate";
  return completes ? "text_completion" : "chat";
}

// Writes the spans of one request.
class Spans {
 public:
  Spans(const RequestFacts& facts, Json& out) : facts_(facts), out_(out) {}

  void write() {
    Json whole = span(facts_.span, facts_.parent, facts_.method + " " + facts_.route, kServer);
    set_time(whole, facts_.began, facts_.ended);
    whole["attributes"] = attributes();
    if (facts_.status >= 500) whole["status"] = {{"code", kFailed}, {"message", facts_.error}};
    out_.push_back(std::move(whole));
    const engine::JobTimes& times = facts_.times;
    if (times.submitted && times.started) child("queue", *times.submitted, *times.started);
    if (times.loaded) piece("fetch", *times.loaded);
    for (size_t i = 0; i < times.pieces; ++i) piece("prompt", times.prompt[i]);
    if (times.first_token) {
      Json& answer = child("answer", *times.first_token, facts_.ended);
      add(answer["attributes"], "gen_ai.usage.output_tokens", facts_.answer_tokens);
    }
  }

 private:
  Json span(const std::string& id, const std::string& parent, const std::string& name, int kind) {
    Json json = {{"traceId", facts_.trace}, {"spanId", id}};
    if (!parent.empty()) json["parentSpanId"] = parent;
    json["name"] = name;
    json["kind"] = kind;
    return json;
  }
  // Engine and server use the same clock. A child's times are clamped to its parent's.
  void set_time(Json& json, double began, double ended) const {
    const auto at = [&](double seconds) {
      const double within = std::clamp(seconds, facts_.began, std::max(facts_.began, facts_.ended));
      return std::to_string(facts_.began_unix_ns +
                            static_cast<int64_t>((within - facts_.began) * 1e9));
    };
    json["startTimeUnixNano"] = at(began);
    json["endTimeUnixNano"] = at(ended);
  }
  Json& child(const char* name, double began, double ended) {
    // Ids need only differ within a trace, so children count up from their parent's id.
    const uint64_t id = std::stoull(facts_.span, nullptr, 16) + ++children_;
    Json json = span(fmt::format("{:016x}", id), facts_.span, name, kInternal);
    set_time(json, began, ended);
    json["attributes"] = Json::array();
    out_.push_back(std::move(json));
    return out_.back();
  }
  void piece(const char* name, const engine::JobTimes::Piece& piece) {
    Json& json = child(name, piece.began, piece.ended);
    add(json["attributes"], "kvick.tokens", uint64_t{piece.tokens});
  }

  Json attributes() const {
    Json all = Json::array();
    add(all, "http.request.method", facts_.method);
    add(all, "http.route", facts_.route);
    add(all, "http.response.status_code", uint64_t{facts_.status});
    add_text(all, "client.address", facts_.client);
    add(all, "kvick.request.id", facts_.id);
    add(all, "gen_ai.operation.name", operation_of(facts_.route));
    add(all, "gen_ai.provider.name", std::string("kvick"));
    add_text(all, "gen_ai.request.model", facts_.adapter.empty() ? facts_.model : facts_.adapter);
    add(all, "gen_ai.usage.input_tokens", facts_.prompt_tokens);
    add(all, "gen_ai.usage.output_tokens", facts_.answer_tokens);
    add(all, "gen_ai.usage.cache_read.input_tokens", facts_.cached_tokens);
    if (!facts_.finish.empty())
      all.push_back(
          {{"key", "gen_ai.response.finish_reasons"},
           {"value", {{"arrayValue", {{"values", Json::array({value_of(facts_.finish)})}}}}}});
    if (facts_.first_text) add(all, "kvick.first_token_seconds", *facts_.first_text - facts_.began);
    if (facts_.preemptions > 0) add(all, "kvick.preemptions", facts_.preemptions);
    if (facts_.status >= 400)
      add(all, "error.type",
          facts_.error_code.empty() ? std::to_string(facts_.status) : facts_.error_code);
    return all;
  }

  const RequestFacts& facts_;
  Json& out_;
  uint64_t children_ = 0;
};

}  // namespace

std::string otlp_text(std::span<const RequestFacts> requests, const std::string& version) {
  Json spans = Json::array(), resource = Json::array();
  for (const RequestFacts& facts : requests) Spans(facts, spans).write();
  add(resource, "service.name", std::string("kvick"));
  add(resource, "service.version", version);
  const Json scope = {{"scope", {{"name", "kvick"}, {"version", version}}},
                      {"spans", std::move(spans)}};
  const Json resource_spans = {{"resource", {{"attributes", std::move(resource)}}},
                               {"scopeSpans", Json::array({scope})}};
  return to_text({{"resourceSpans", Json::array({resource_spans})}});
}

}  // namespace kvick::server
