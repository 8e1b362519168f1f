#pragma once
// Policies whose rows a function of the program chooses.

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kvick::python {

// The rows of one layer and head that a policy may choose from.
struct Candidates {
  uint32_t layer = 0;                 // counted among the layers whose rows it chooses
  uint32_t head = 0;                  // of keys and values
  uint32_t first = 0;                 // number of the first one in its sequence
  uint32_t take = 0;                  // how many of these rows will be read
  uint32_t dims = 0, value_dims = 0;  // of a query and a key; of a value
  std::span<const float> queries;     // [queries of the step][dims], turned to their positions
  std::span<const float> keys;        // [candidates][dims], turned to theirs
  std::span<const float> values;      // [candidates][value_dims], or none
};
// The `take` candidates of the highest scores are read. From several threads.
using ScoreRows = std::function<void(const Candidates& rows, std::span<float> scores)>;
using OptionTexts = std::vector<std::pair<std::string, std::string>>;  // name, value

struct NewPolicy {
  std::string name, summary;
  OptionTexts options;  // besides those that all policies have; with their defaults
  bool values = false;  // whether it looks at values
  // For one store, with the values of `options`.
  std::function<ScoreRows(const OptionTexts& options)> make;
};

// Adds it to the table, or takes the place of one that was added by that name, for stores to come.
// Throws kvick::Error: a name or an option that cannot be, options that the one before had not.
void add_policy(NewPolicy policy);
// Whether this thread is in a call of ScoreRows.
bool choosing_rows();

}  // namespace kvick::python
