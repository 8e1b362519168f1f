#pragma once
// The command line of kvick-train: --name VALUE or --name=VALUE, flags without a value, and the
// rest in order. CLI11 is not where the program is built for a GPU.

#include <map>
#include <string>
#include <vector>

#include "train/settings/mistake.h"

namespace kvick::train {

class Options {
 public:
  explicit Options(const std::vector<std::string>& arguments);

  // Each takes the option out; what is left at done() is unknown. Throw Mistake for a value that is
  // no number or out of its bounds.
  bool flag(const std::string& name);
  std::string text(const std::string& name, const std::string& otherwise);
  double number(const std::string& name, double otherwise, double least, double most);
  uint64_t count(const std::string& name, uint64_t otherwise, uint64_t least, uint64_t most);
  // The next of what is no option; `what` names it in the error when there is none.
  std::string next(const std::string& what);
  void done() const;

 private:
  std::map<std::string, std::string> values_;  // by "--name"
  std::vector<std::string> rest_;
};

}  // namespace kvick::train
