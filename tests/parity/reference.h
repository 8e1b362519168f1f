#pragma once
// What llama.cpp computed (tests/reference, recorded by record_logits.py), and how far something is
// from it.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvick::parity {

using Token = int32_t;

// The part of one position's logits that a reference keeps.
struct Position {
  std::map<Token, float> logits;  // at the case's sampled ids, and the eight largest
  double log_sum_exp = 0, norm = 0;
};

struct Case {
  std::string name;
  std::vector<std::string> arguments;  // of make_model; empty: the file is not made
  uint64_t bytes = 0;
  uint32_t crc32 = 0;  // of the model file
  std::vector<Token> ids, sampled;
  std::vector<Position> peer;  // llama.cpp on the file
  std::vector<Position>
      exact;  // llama.cpp on the same weights as float32; empty if they are float32 anyway
};

struct Greedy {
  std::string text;
  std::vector<Token> ids;  // of the prompt
  // At each step the peer's four likeliest tokens, best first, and by how much their logits are
  // below the best one's.
  std::vector<std::vector<Token>> best;
  std::vector<std::vector<float>> below;
  std::vector<Token> exact;  // the likeliest token of the widened weights after the same tokens
};

struct Perplexity {
  std::string name;
  uint32_t window = 0, ids_crc32 = 0;
  std::vector<double> window_nll;  // sums over window - 1 tokens
};

// What llama.cpp makes of a whole text.
struct Pooled {
  Case of;                    // of no logits
  std::vector<float> values;  // an embedding; of a reranker its labels
};

std::vector<std::string> case_names();
Case load_case(const std::string& name);
std::vector<std::string> pooled_names();
Pooled load_pooled(const std::string& name);
std::vector<Greedy> load_greedy();
Perplexity load_perplexity(const std::string& name);

// CRC-32 as zlib has it.
uint32_t crc32(std::span<const std::byte> bytes);

// What a reference would have kept of these logits ([positions][vocab]).
std::vector<Position> compact(const std::vector<float>& logits, const Case& of);

// The larger one; infinity if one is not a number, so that it cannot vanish.
double worse(double a, double b);

// Per position: relative = max|a - b| / max|b| over the ids that both kept; kl = the divergence of
// b's distribution from a's over those ids and one bucket for all others, a lower bound of the
// whole one.
struct Deviation {
  double relative_max = 0, relative_mean = 0, kl_max = 0, kl_mean = 0;
  double norm_max = 0;  // |norm(a) - norm(b)| / norm(b), of all logits
};
Deviation deviation(const std::vector<Position>& a, const std::vector<Position>& b);
// The largest difference between a and b of how far b's second likeliest token is below its
// likeliest.
double gap_deviation(const std::vector<Position>& a, const std::vector<Position>& b);
std::string to_string(const Deviation& deviation);

}  // namespace kvick::parity
