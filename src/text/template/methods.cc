// Methods of dict, list, tuple and loop, and Python's methods that templates may not call.
// string_methods.cc has those of str.
#include <algorithm>

#include "text/jinja/operators.h"
#include "text/template/eval.h"

namespace kvick::text::jinja {

std::span<const FunctionRow> string_methods();

namespace {

Value dict_get(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("get", arguments, {"self", "key", "default"}, 2);
  if (bound[1].is(Kind::kUndefined)) return bound.given(2) ? bound[2] : Value::none();
  if (const Value* found = bound[0].dict().find(bound[1], evaluator.heap())) return *found;
  return bound.given(2) ? bound[2] : Value::none();
}

template <Flavour kFlavour>
Value dict_view(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("the dict's method", arguments, {"self"}, 1);
  Values items;
  for (const auto& [key, value] : bound[0].dict().entries) {
    if (kFlavour == Flavour::kItems)
      items.push_back(make_tuple(evaluator.heap(), {key, value}));
    else
      items.push_back(kFlavour == Flavour::kKeys ? key : value);
  }
  return make_sequence(evaluator.heap(), kFlavour, std::move(items));
}

Value copy(Evaluator&, const CallArguments& arguments) {
  Bound bound("copy", arguments, {"self"}, 1);
  return bound[0];  // values are immutable, so no copy is needed
}

Value sequence_index(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("index", arguments, {"self", "value"}, 2);
  const Values& items = bound[0].sequence().items;
  for (size_t i = 0; i < items.size(); ++i)
    if (equal(items[i], bound[1], evaluator.heap())) return Value::integer(static_cast<int64_t>(i));
  fail("index() finds no such value in the {}", type_name(bound[0]));
}

Value sequence_count(Evaluator& evaluator, const CallArguments& arguments) {
  Bound bound("count", arguments, {"self", "value"}, 2);
  const Values& items = bound[0].sequence().items;
  return Value::integer(std::count_if(items.begin(), items.end(), [&](const Value& item) {
    return equal(item, bound[1], evaluator.heap());
  }));
}

Value loop_cycle(Evaluator&, const CallArguments& arguments) {
  const auto count = static_cast<int64_t>(arguments.positional.size()) - 1;
  if (count == 0) fail("loop.cycle() needs values");
  const int64_t at = arguments.positional[0].as<Loop>()->index0 % count;
  return arguments.positional[static_cast<size_t>(at) + 1];
}

Value loop_changed(Evaluator& evaluator, const CallArguments& arguments) {
  Loop& loop = *arguments.positional[0].as<Loop>();
  if (!loop.scope) fail("loop.changed() is called outside of its loop");
  Value now = make_tuple(evaluator.heap(),
                         Values(arguments.positional.begin() + 1, arguments.positional.end()));
  const bool changed = !loop.ever_changed || !equal(loop.last_changed, now, evaluator.heap());
  loop.last_changed = now;
  loop.ever_changed = true;
  return Value::boolean(changed);
}

constexpr FunctionRow kDict[] = {
    {"get", dict_get},
    {"items", dict_view<Flavour::kItems>},
    {"keys", dict_view<Flavour::kKeys>},
    {"values", dict_view<Flavour::kValues>},
    {"copy", copy},
};
constexpr FunctionRow kList[] = {
    {"index", sequence_index}, {"count", sequence_count}, {"copy", copy}};
constexpr FunctionRow kTuple[] = {{"index", sequence_index}, {"count", sequence_count}};
constexpr FunctionRow kLoop[] = {{"cycle", loop_cycle}, {"changed", loop_changed}};

// Hugging Face uses the immutable sandbox: these exist but may not be called.
constexpr std::string_view kDictUnsafe[] = {"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::string_view kListUnsafe[] = {"append", "clear",  "extend",  "insert",
                                            "pop",    "remove", "reverse", "sort"};
constexpr std::string_view kDictUnsupported[] = {"fromkeys"};
constexpr std::string_view kStringUnsupported[] = {
    "casefold",     "encode",      "expandtabs", "format_map", "isascii",  "isdecimal",
    "isidentifier", "isprintable", "istitle",    "maketrans",  "swapcase", "translate"};

struct Methods {
  std::span<const FunctionRow> functions;
  std::span<const std::string_view> unsafe, unsupported;
};

Methods methods_of(const Value& object) {
  switch (object.kind()) {
    case Kind::kDict:
      return {kDict, kDictUnsafe, kDictUnsupported};
    case Kind::kString:
      return {string_methods(), {}, kStringUnsupported};
    case Kind::kLoop:
      return {kLoop, {}, {}};
    case Kind::kSequence:
      if (object.sequence().flavour == Flavour::kList) return {kList, kListUnsafe, {}};
      if (object.sequence().flavour <= Flavour::kRange) return {kTuple, {}, {}};
      return {};
    default:
      return {};
  }
}

}  // namespace

Method find_method(const Value& object, std::string_view name) {
  Methods methods = methods_of(object);
  for (const FunctionRow& row : methods.functions)
    if (row.name == name) return {row.function};
  auto holds = [&](std::span<const std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const bool internal =
      name.substr(0, 2) == "__" && name.size() > 4 && name.substr(name.size() - 2) == "__";
  return {nullptr, internal || holds(methods.unsafe), holds(methods.unsupported)};
}

}  // namespace kvick::text::jinja
