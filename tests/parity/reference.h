#pragma once
// llama.cpp's results (tests/reference, recorded by record_logits.py), and distances from them.

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kvick::parity {

using Token = int32_t;

// The part of a position's logits that a reference keeps.
struct Position {
  std::map<Token, float> logits;  // at the case's sampled ids and of the eight largest
  double log_sum_exp = 0, norm = 0;
};

struct Case {
  std::string name;
  std::vector<std::string> arguments;  // arguments of make_model; empty: not made by it
  uint64_t bytes = 0;
  uint32_t crc32 = 0;  // of the model file
  std::vector<Token> ids, sampled;
  std::vector<Position> peer;  // llama.cpp's logits for the file
  // llama.cpp's logits for the same weights as float32; empty if they are float32 anyway.
  std::vector<Position> exact;
};

struct Greedy {
  std::string text;
  std::vector<Token> ids;  // of the prompt
  // At each step: the peer's four likeliest tokens, best first, and how far their logits are below
  // the best.
  std::vector<std::vector<Token>> best;
  std::vector<std::vector<float>> below;
  std::vector<Token> exact;  // the likeliest token with widened weights after the same tokens
};

struct Perplexity {
  std::string name;
  uint32_t window = 0, ids_crc32 = 0;
  std::vector<double> window_nll;  // sums over window - 1 tokens
};

// llama.cpp's result for a whole text.
struct Pooled {
  Case of;                    // without logits
  std::vector<float> values;  // an embedding, or a reranker's labels
};

std::vector<std::string> case_names();
Case load_case(const std::string& name);
std::vector<std::string> pooled_names();
Pooled load_pooled(const std::string& name);
std::vector<Greedy> load_greedy();
Perplexity load_perplexity(const std::string& name);

// Returns the CRC-32 as zlib computes it.
uint32_t crc32(std::span<const std::byte> bytes);

// Returns what a reference keeps of logits [positions][vocab].
std::vector<Position> compact(const std::vector<float>& logits, const Case& of);

// Returns the larger number, or infinity if one is not a number, so that it cannot be lost.
double worse(double a, double b);

// Differences per position. relative = max|a - b| / max|b| over the ids that both kept. kl = the KL
// divergence of b's distribution from a's over those ids and one bucket for all others, a lower
// bound of the full one.
struct Deviation {
  double relative_max = 0, relative_mean = 0, kl_max = 0, kl_mean = 0;
  double norm_max = 0;  // |norm(a) - norm(b)| / norm(b) over all logits
};
Deviation deviation(const std::vector<Position>& a, const std::vector<Position>& b);
// Returns the largest difference between a and b in the gap between b's likeliest and second
// likeliest token.
double gap_deviation(const std::vector<Position>& a, const std::vector<Position>& b);
std::string to_string(const Deviation& deviation);

}  // namespace kvick::parity
