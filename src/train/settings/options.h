#pragma once
// The command line of kvick-train: --name VALUE or --name=VALUE, flags without a value, and
// positional words. Builds for a GPU do not have CLI11.

#include <map>
#include <string>
#include <vector>

#include "train/settings/mistake.h"

namespace kvick::train {

class Options {
 public:
  explicit Options(const std::vector<std::string>& arguments);

  // Each function removes the option from the list; done() reports what is left as unknown. They
  // throw Mistake for a value that is not a number or out of bounds.
  bool flag(const std::string& name);
  std::string text(const std::string& name, const std::string& otherwise);
  double number(const std::string& name, double otherwise, double least, double most);
  uint64_t count(const std::string& name, uint64_t otherwise, uint64_t least, uint64_t most);
  // Returns the next positional word; `what` names it in the error if there is none.
  std::string next(const std::string& what);
  void done() const;

 private:
  std::map<std::string, std::string> values_;  // by "--name"
  std::vector<std::string> rest_;
};

}  // namespace kvick::train
