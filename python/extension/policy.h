#pragma once
// Policies that select rows with a function of the program.

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvick::python {

// The rows of one layer and head among which a policy selects.
struct Candidates {
  uint32_t layer = 0;                 // counted among the layers whose rows the policy selects
  uint32_t head = 0;                  // KV head
  uint32_t first = 0;                 // row number of the first candidate in its sequence
  uint32_t take = 0;                  // number of candidates that will be read
  uint32_t dims = 0, value_dims = 0;  // elements of a query and key; of a value
  std::span<const float> queries;     // [queries of the step][dims], rotated to their positions
  std::span<const float> keys;        // [candidates][dims], rotated to their positions
  std::span<const float> values;      // [candidates][value_dims], or empty
};
// Scores the candidates. The `take` candidates with the highest scores are read. Called from
// several threads.
using ScoreRows = std::function<void(const Candidates& rows, std::span<float> scores)>;
using OptionTexts = std::vector<std::pair<std::string, std::string>>;  // name, value

struct NewPolicy {
  std::string name, summary;
  OptionTexts options;  // beyond those of all policies, with their defaults
  bool values = false;  // whether it needs values
  // Makes the function for one store, with the values of `options`.
  std::function<ScoreRows(const OptionTexts& options)> make;
};

// Adds the policy to the table. It replaces an added policy of the same name for new stores. Throws
// kvick::Error for an invalid name or option, and if the replaced policy had other options or
// another summary.
void add_policy(NewPolicy policy);
// Returns whether this thread is in a call of ScoreRows.
bool choosing_rows();

}  // namespace kvick::python
