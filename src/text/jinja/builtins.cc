#include "text/jinja/builtins.h"

#include <array>
#include <unordered_map>

#include "text/jinja/operators.h"

namespace kvick::text::jinja {

Function find_filter(std::string_view name) {
  static const auto kTable = [] {
    std::unordered_map<std::string_view, Function> table;
    for (auto part : {text_filters(), sequence_filters(), selection_filters(), value_filters()})
      for (const FunctionRow& row : part) table.emplace(row.name, row.function);
    return table;
  }();
  auto found = kTable.find(name);
  return found == kTable.end() ? nullptr : found->second;
}

Bound::Bound(std::string_view function, const CallArguments& arguments,
             std::initializer_list<std::string_view> parameters, size_t required)
    : function_(function), values_(parameters.size(), nullptr) {
  if (arguments.positional.size() > parameters.size())
    fail("{} takes at most {} arguments, not {}", function, parameters.size(),
         arguments.positional.size());
  for (size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < parameters.size() && parameters.begin()[i] != name) ++i;
    if (i == parameters.size()) fail("{} takes no argument '{}'", function, name);
    if (values_[i]) fail("{} is given the argument '{}' twice", function, name);
    values_[i] = &value;
  }
  for (size_t i = 0; i < required; ++i)
    if (!values_[i]) fail("{} lacks the argument '{}'", function, parameters.begin()[i]);
}

bool Bound::flag(size_t i, bool fallback) const {
  return values_[i] ? truthy(*values_[i]) : fallback;
}

int64_t Bound::integer(size_t i, int64_t fallback) const {
  return values_[i] ? to_index(*values_[i], fmt::format("an argument of {}", function_)) : fallback;
}

std::string_view Bound::string(size_t i, std::string_view fallback) const {
  if (!values_[i]) return fallback;
  if (values_[i]->is(Kind::kUndefined)) fail_undefined(*values_[i]);
  if (!values_[i]->is(Kind::kString))
    fail("{} needs a string, not {}", function_, type_name(*values_[i]));
  return values_[i]->text();
}

}  // namespace kvick::text::jinja
