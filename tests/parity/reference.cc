#include "reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/check.h"
#include "base/testing/source_folder.h"

namespace kvick::parity {
namespace {

using Json = nlohmann::json;

constexpr size_t kTop = 8;
const std::string kFolder = base::source_folder() + "/tests/reference/logits/";

const Json& index() {
  static const Json kIndex = [] {
    std::ifstream file(kFolder + "index.json");
    return Json::parse(file);
  }();
  return kIndex;
}

const Json& named(const Json& list, const std::string& name) {
  for (const Json& entry : list)
    if (entry.at("name") == name) return entry;
  KVICK_CHECK(false, "tests/reference/logits/index.json has no case {}", name);
}

std::vector<float> read_floats(const std::string& file) {
  std::ifstream in(kFolder + file, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

// Reads rows that record_logits.py's compact() wrote.
std::vector<Position> read_positions(const std::string& file, const Case& of) {
  const std::vector<float> values = read_floats(file);
  const size_t columns = of.sampled.size() + 2 + 2 * kTop;
  KVICK_CHECK_EQ(values.size(), of.ids.size() * columns);
  std::vector<Position> positions(of.ids.size());
  const float* row = values.data();
  for (Position& position : positions) {
    for (const Token id : of.sampled) position.logits[id] = *row++;
    position.log_sum_exp = *row++;
    position.norm = *row++;
    for (size_t i = 0; i < kTop; ++i) position.logits[static_cast<Token>(row[i])] = row[kTop + i];
    row += 2 * kTop;
  }
  return positions;
}

// Returns the total probability of the tokens that are not in `common`.
double rest(const Position& position, const std::vector<Token>& common) {
  double kept = 0;
  for (const Token id : common) kept += std::exp(position.logits.at(id) - position.log_sum_exp);
  return std::max(1 - kept, 1e-12);
}

double coarse_kl(const Position& a, const Position& b, const std::vector<Token>& common) {
  const double rest_a = rest(a, common), rest_b = rest(b, common);
  double kl = rest_b * std::log(rest_b / rest_a);
  for (const Token id : common) {
    const double log_a = a.logits.at(id) - a.log_sum_exp, log_b = b.logits.at(id) - b.log_sum_exp;
    kl += std::exp(log_b) * (log_b - log_a);
  }
  return std::max(kl, 0.0);
}

std::vector<std::string> names_of(const char* kind) {
  std::vector<std::string> names;
  for (const Json& entry : index().at(kind)) names.push_back(entry.at("name"));
  return names;
}

// Returns a case without the peer's results.
Case described(const Json& entry) {
  return {.name = entry.at("name"),
          .arguments = entry.value("arguments", std::vector<std::string>{}),
          .bytes = entry.at("bytes"),
          .crc32 = entry.at("crc32"),
          .ids = entry.at("ids"),
          .sampled = entry.value("sampled", std::vector<Token>{}),
          .peer = {},
          .exact = {}};
}

}  // namespace

std::vector<std::string> case_names() { return names_of("logits"); }
std::vector<std::string> pooled_names() { return names_of("pooled"); }

Case load_case(const std::string& name) {
  const Json& entry = named(index().at("logits"), name);
  Case out = described(entry);
  out.peer = read_positions(name + ".bin", out);
  if (entry.contains("against_exact")) out.exact = read_positions(name + ".exact.bin", out);
  return out;
}

Pooled load_pooled(const std::string& name) {
  return {.of = described(named(index().at("pooled"), name)), .values = read_floats(name + ".bin")};
}

std::vector<Greedy> load_greedy() {
  std::vector<Greedy> out;
  for (const Json& entry : index().at("greedy"))
    out.push_back({.text = entry.at("text"),
                   .ids = entry.at("ids"),
                   .best = entry.at("best"),
                   .below = entry.at("below"),
                   .exact = entry.at("exact")});
  return out;
}

Perplexity load_perplexity(const std::string& name) {
  const Json& entry = named(index().at("perplexity"), name);
  return {.name = name,
          .window = entry.at("window"),
          .ids_crc32 = entry.at("ids_crc32"),
          .window_nll = entry.at("window_nll")};
}

uint32_t crc32(std::span<const std::byte> bytes) {
  static const auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        table[i] = (table[i] >> 1) ^ (table[i] & 1 ? 0xedb88320u : 0);
    }
    return table;
  }();
  uint32_t crc = ~0u;
  for (const std::byte b : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint32_t>(b)) & 255];
  return ~crc;
}

std::vector<Position> compact(const std::vector<float>& logits, const Case& of) {
  const size_t vocab = logits.size() / of.ids.size();
  std::vector<Position> positions(of.ids.size());
  std::vector<Token> order(vocab);
  for (size_t p = 0; p < positions.size(); ++p) {
    const float* row = logits.data() + p * vocab;
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + kTop, order.end(),
                      [row](Token a, Token b) { return row[a] > row[b]; });
    Position& out = positions[p];
    for (const Token id : of.sampled) out.logits[id] = row[id];
    for (size_t i = 0; i < kTop; ++i) out.logits[order[i]] = row[order[i]];
    double sum = 0, squares = 0;
    for (size_t i = 0; i < vocab; ++i) {
      sum += std::exp(static_cast<double>(row[i]) - row[order[0]]);
      squares += static_cast<double>(row[i]) * row[i];
    }
    out.log_sum_exp = row[order[0]] + std::log(sum);
    out.norm = std::sqrt(squares);
  }
  return positions;
}

double worse(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::infinity();
  return std::max(a, b);
}

Deviation deviation(const std::vector<Position>& a, const std::vector<Position>& b) {
  KVICK_CHECK_EQ(a.size(), b.size());
  Deviation out;
  const double share = 1.0 / static_cast<double>(a.size());
  for (size_t p = 0; p < a.size(); ++p) {
    std::vector<Token> common;
    double worst = 0, largest = 0;
    for (const auto& [id, logit] : b[p].logits) {
      largest = std::max<double>(largest, std::fabs(logit));
      const auto other = a[p].logits.find(id);
      if (other == a[p].logits.end()) continue;
      common.push_back(id);
      worst = worse(worst, std::fabs(static_cast<double>(other->second) - logit));
    }
    const double kl = coarse_kl(a[p], b[p], common), relative = worst / largest;
    out.relative_max = worse(out.relative_max, relative);
    out.relative_mean += relative * share;
    out.kl_max = worse(out.kl_max, kl);
    out.kl_mean += kl * share;
    out.norm_max = worse(out.norm_max, std::fabs(a[p].norm - b[p].norm) / b[p].norm);
  }
  return out;
}

double gap_deviation(const std::vector<Position>& a, const std::vector<Position>& b) {
  double largest = 0;
  for (size_t p = 0; p < b.size(); ++p) {
    std::vector<std::pair<float, Token>> order;
    for (const auto& [id, logit] : b[p].logits) order.emplace_back(-logit, id);
    std::partial_sort(order.begin(), order.begin() + 2, order.end());
    const auto first = a[p].logits.find(order[0].second),
               second = a[p].logits.find(order[1].second);
    if (first == a[p].logits.end() || second == a[p].logits.end()) continue;
    const double gap = order[1].first - order[0].first;
    largest = worse(largest, std::fabs(first->second - second->second - gap));
  }
  return largest;
}

std::string to_string(const Deviation& d) {
  return fmt::format("relative {:.1e} max {:.1e} mean, KL {:.1e} max {:.1e} mean, norm {:.1e} max",
                     d.relative_max, d.relative_mean, d.kl_max, d.kl_mean, d.norm_max);
}

}  // namespace kvick::parity
