#include "lab/data/trace.h"

#include <charconv>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

namespace kvick::lab {
namespace {

base::Result<std::ifstream> open_trace(const std::string& path) {
  std::ifstream in(path);
  if (!in) return base::fail("cannot read {}", path);
  return in;
}

bool read_number(std::string_view text, uint32_t& to) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to);
  return error == std::errc() && to > 0;
}

}  // namespace

base::Result<std::vector<TraceRequest>> read_lengths(const std::string& path,
                                                     uint64_t most_tokens) {
  if (path.empty())
    return base::fail(
        "a trace of requests is needed: --file TRACE.csv, with the columns time, prompt tokens, "
        "answer tokens");
  KVICK_TRY(std::ifstream in, open_trace(path));
  std::vector<TraceRequest> requests;
  std::string line;
  std::getline(in, line);  // the names of the columns
  for (uint64_t number = 2; std::getline(in, line); ++number) {
    const size_t first = line.find(','), second = line.find(',', first + 1);
    TraceRequest request;
    if (first == std::string::npos || second == std::string::npos ||
        !read_number(std::string_view(line).substr(first + 1), request.prompt) ||
        !read_number(std::string_view(line).substr(second + 1), request.answer))
      return base::fail("{}:{}: not a time and two numbers of tokens", path, number);
    if (uint64_t{request.prompt} + request.answer > most_tokens)
      return base::fail("{}:{}: a request of more than {} tokens", path, number, most_tokens);
    requests.push_back(request);
  }
  if (requests.empty()) return base::fail("{} holds no request", path);
  return requests;
}

std::vector<TraceRequest> scaled(std::vector<TraceRequest> requests, double factor) {
  for (TraceRequest& request : requests)
    for (uint32_t* tokens : {&request.prompt, &request.answer})
      *tokens = static_cast<uint32_t>(std::ceil(*tokens * factor));
  return requests;
}

std::vector<TraceRequest> spread_over(std::span<const TraceRequest> requests, size_t count) {
  if (count == 0 || count >= requests.size()) return {requests.begin(), requests.end()};
  std::vector<TraceRequest> some;
  for (size_t i = 0; i < count; ++i) some.push_back(requests[i * requests.size() / count]);
  return some;
}

base::Result<std::vector<BlockRequest>> read_blocks(const std::string& path) {
  if (path.empty())
    return base::fail(
        "a trace of prompts is needed: --file TRACE.jsonl, with hash_ids in each line");
  KVICK_TRY(std::ifstream in, open_trace(path));
  std::vector<BlockRequest> requests;
  std::string line;
  for (uint64_t number = 1; std::getline(in, line); ++number) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    const auto good = [](const nlohmann::json& ids) {
      for (const nlohmann::json& id : ids)
        if (!id.is_number_unsigned()) return false;
      return !ids.empty();
    };
    if (!json.is_object() || !json.contains("hash_ids") || !json["hash_ids"].is_array() ||
        !good(json["hash_ids"]))
      return base::fail("{}:{}: not an object with hash_ids", path, number);
    requests.push_back({.blocks = json["hash_ids"].get<std::vector<uint64_t>>()});
  }
  if (requests.empty()) return base::fail("{} holds no request", path);
  return requests;
}

}  // namespace kvick::lab
