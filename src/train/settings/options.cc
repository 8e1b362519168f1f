#include "train/settings/options.h"

#include <charconv>
#include <cmath>

namespace kvick::train {
namespace {

bool is_option(const std::string& argument) {
  return argument.size() > 1 && argument[0] == '-' && (argument[1] < '0' || argument[1] > '9') &&
         argument[1] != '.';
}

}  // namespace

Options::Options(const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!is_option(argument)) {
      rest_.push_back(argument);
      continue;
    }
    const size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals), value;
    if (equals != std::string::npos)
      value = argument.substr(equals + 1);
    else if (i + 1 < arguments.size() && !is_option(arguments[i + 1]) && name != "--json" &&
             name != "--quiet" && name != "--resume" && name != "--help")
      value = arguments[++i];
    if (!values_.emplace(name, value).second) refuse(name, " is given twice");
  }
}

bool Options::flag(const std::string& name) {
  const auto found = values_.find(name);
  if (found == values_.end()) return false;
  if (!found->second.empty()) refuse(name, " takes no value");
  values_.erase(found);
  return true;
}

std::string Options::text(const std::string& name, const std::string& otherwise) {
  const auto found = values_.find(name);
  if (found == values_.end()) return otherwise;
  const std::string value = found->second;
  if (value.empty()) refuse(name, " needs a value");
  values_.erase(found);
  return value;
}

double Options::number(const std::string& name, double otherwise, double least, double most) {
  const std::string value = text(name, "");
  if (value.empty()) return otherwise;
  double number = NAN;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() ||
      !(number >= least && number <= most))
    refuse(name, " is ", value, ", but must be a number from ", least, " to ", most);
  return number;
}

uint64_t Options::count(const std::string& name, uint64_t otherwise, uint64_t least,
                        uint64_t most) {
  const std::string value = text(name, "");
  if (value.empty()) return otherwise;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number < least || number > most)
    refuse(name, " is ", value, ", but must be a whole number from ", least, " to ", most);
  return number;
}

std::string Options::next(const std::string& what) {
  if (rest_.empty()) refuse(what, " is missing; kvick train --help lists what there is");
  const std::string first = rest_.front();
  rest_.erase(rest_.begin());
  return first;
}

void Options::done() const {
  if (!values_.empty())
    refuse("there is no option ", values_.begin()->first, "; kvick train lm --help lists them");
  if (!rest_.empty()) refuse("unexpected argument ", rest_.front());
}

}  // namespace kvick::train
