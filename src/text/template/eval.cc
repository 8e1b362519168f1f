#include "text/template/eval.h"

#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/template/eval_nested.h"

namespace kvick::text::jinja {

Evaluator::Evaluator(const nlohmann::ordered_json& context, const RenderOptions& options)
    : context_(context), options_(options), heap_(options.max_memory_bytes, options.max_steps) {}

Evaluator::~Evaluator() {
  for (const auto& object : namespaces_) object->attributes.clear();
  for (const auto& scope : captured_) scope->variables.clear();
}

std::string Evaluator::run(const ast::Body& body) {
  scope_ = Ref<Scope>(new Scope(heap_, Ref<Scope>()));
  for (auto it = context_.begin(); it != context_.end(); ++it)
    scope_->set(it.key(), from_json(*it), heap_);
  run_body(body);
  return std::move(output_);
}

Value Evaluator::from_json(const nlohmann::ordered_json& json, int depth) {
  if (depth > kMaxValueDepth) fail("a value is nested more than {} deep", kMaxValueDepth);
  heap_.work(1);
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case nlohmann::json::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned: {
      auto n = json.get<uint64_t>();
      if (n > std::numeric_limits<int64_t>::max())
        fail("the number {} does not fit into 63 bits", n);
      return Value::integer(static_cast<int64_t>(n));
    }
    case nlohmann::json::value_t::number_float:
      return Value::real(json.get<double>());
    case nlohmann::json::value_t::string:
      return string(json.get_ref<const std::string&>());
    case nlohmann::json::value_t::array: {
      Values items;
      heap_.expect(json.size() * sizeof(Value));
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(item, depth + 1));
      return make_list(heap_, std::move(items));
    }
    case nlohmann::json::value_t::object: {
      std::vector<Entry> entries;
      heap_.expect(json.size() * sizeof(Entry));
      entries.reserve(json.size());
      for (auto it = json.begin(); it != json.end(); ++it)
        entries.emplace_back(string(it.key()), from_json(*it, depth + 1));
      return make_dict(heap_, entries);
    }
    default:
      return Value::none();
  }
}

std::string Evaluator::text_of(const Value& value) { return to_text(value, heap_); }

Value Evaluator::eval(const ast::ExprPtr& expr) {
  Nested nested(*this);
  heap_.work(1);
  const int outer = std::exchange(line_, expr->line);
  Value value = std::visit([this](const auto& node) { return eval(node); }, expr->node);
  line_ = outer;
  return value;
}

Value Evaluator::eval(const ast::Name& node) {
  for (Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    heap_.work(1 + scope->variables.size() / 16);
    if (const Value* found = scope->find(node.name)) return *found;
  }
  const bool hidden = node.name == "strftime_now" && !options_.now;
  if (Function function = find_global(node.name); function && !hidden)
    return Value(Kind::kFunction, new FunctionObject(heap_, node.name, function, Value()));
  return make_undefined(heap_, fmt::format("'{}' is undefined", node.name));
}

Value Evaluator::eval(const ast::List& node) {
  Values items;
  for (const auto& item : node.items) items.push_back(eval(item));
  return make_sequence(heap_, node.tuple ? Flavour::kTuple : Flavour::kList, std::move(items));
}

Value Evaluator::eval(const ast::DictLiteral& node) {
  std::vector<Entry> entries;
  for (const auto& [key, value] : node.entries) {
    Value evaluated = eval(key);
    entries.emplace_back(std::move(evaluated), eval(value));
  }
  return make_dict(heap_, entries);
}

Value Evaluator::eval(const ast::Attribute& node) {
  return attribute(eval(node.object), node.name);
}

Value Evaluator::eval(const ast::Subscript& node) {
  Value object = eval(node.object);
  return item(object, eval(node.index));
}

Value Evaluator::eval(const ast::Slice& node) {
  Value object = eval(node.object);
  auto part = [this](const ast::ExprPtr& expr) { return expr ? eval(expr) : Value::none(); };
  Value start = part(node.start), stop = part(node.stop), step = part(node.step);
  return slice(object, start, stop, step, heap_);
}

// Values are immutable, so lists have neither `append` nor `pop`, as in transformers. Templates
// written for llama.cpp call them on a list that a namespace holds (Kimi K2): the namespace then
// gets another list. Returns nullopt for other calls, and for a list that is held elsewhere too,
// where it would have to change as well.
std::optional<Value> Evaluator::change_held_list(const ast::Call& node) {
  const auto* method = std::get_if<ast::Attribute>(&node.callee->node);
  if (!method || (method->name != "append" && method->name != "pop")) return std::nullopt;
  const auto* held = std::get_if<ast::Attribute>(&method->object->node);
  const auto* name = held ? std::get_if<ast::Name>(&held->object->node) : nullptr;
  if (!name) return std::nullopt;
  const Value space = eval(*name);
  if (!space.is(Kind::kNamespace)) return std::nullopt;
  const auto own_list = [&]() -> Value* {
    Value* found = space.as<Namespace>()->find(held->name);
    const bool list =
        found && found->is(Kind::kSequence) && found->sequence().flavour == Flavour::kList;
    return list && !found->object()->shared() ? found : nullptr;
  };
  if (!own_list()) return std::nullopt;
  const CallArguments arguments = eval_arguments(nullptr, node.arguments);
  Value* const list = own_list();
  if (!list) fail("'{}' of a list may not be given the same list", method->name);
  heap_.expect((list->sequence().items.size() + 1) * sizeof(Value));
  Values items = list->sequence().items;
  Value result = Value::none();
  if (method->name == "append") {
    items.push_back(Bound("append", arguments, {"object"}, 1)[0]);
  } else {
    const auto size = static_cast<int64_t>(items.size());
    int64_t at = Bound("pop", arguments, {"index"}, 0).integer(0, -1);
    if (at < 0) at += size;
    if (at < 0 || at >= size) fail("pop() of a list of {} items finds nothing there", size);
    result = items[static_cast<size_t>(at)];
    items.erase(items.begin() + at);
  }
  *list = make_list(heap_, std::move(items));
  return result;
}

Value Evaluator::eval(const ast::Call& node) {
  if (std::optional<Value> changed = change_held_list(node)) return *std::move(changed);
  Value callee = eval(node.callee);
  return call(callee, eval_arguments(nullptr, node.arguments));
}

Value Evaluator::eval(const ast::Filter& node) {
  Value value = node.value ? eval(node.value) : *filter_input_;
  return node.function(*this, eval_arguments(&value, node.arguments));
}

Value Evaluator::eval(const ast::Test& node) {
  Value value = eval(node.value);
  return Value::boolean(node.function(*this, eval_arguments(&value, node.arguments)));
}

Value Evaluator::eval(const ast::Negate& node) {
  Value value = eval(node.value);
  if (node.minus) return negate(value);
  if (value.is_integral()) return Value::integer(value.as_int());
  if (value.is(Kind::kUndefined)) fail_undefined(value);
  if (!value.is(Kind::kFloat)) fail("+ does not work on {}", type_name(value));
  return value;
}

Value Evaluator::eval(const ast::Not& node) { return Value::boolean(!truthy(eval(node.value))); }

Value Evaluator::eval(const ast::Binary& node) {
  Value left = eval(node.left);
  return binary(node.op, left, eval(node.right), heap_);
}

Value Evaluator::eval(const ast::Concat& node) {
  std::string text;
  for (const auto& part : node.parts) {
    std::string piece = text_of(eval(part));
    heap_.scan(piece.size());
    heap_.expect(text.size() + piece.size());
    text += piece;
  }
  return string(std::move(text));
}

Value Evaluator::eval(const ast::Compare& node) {
  Value left = eval(node.first);
  for (const auto& [op, operand] : node.rest) {
    Value right = eval(operand);
    if (!compare(op, left, right, heap_)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Evaluator::eval(const ast::Logical& node) {
  Value left = eval(node.left);
  return truthy(left) == node.is_and ? eval(node.right) : left;
}

Value Evaluator::eval(const ast::Conditional& node) {
  if (truthy(eval(node.condition))) return eval(node.then);
  if (node.otherwise) return eval(node.otherwise);
  return make_undefined(heap_, "an inline if without else was false, so its value is undefined");
}

CallArguments Evaluator::eval_arguments(const Value* first, const ast::Arguments& arguments) {
  CallArguments all;
  if (first) all.positional.push_back(*first);
  for (const auto& expr : arguments.positional) all.positional.push_back(eval(expr));
  for (const auto& [name, expr] : arguments.named) all.named.emplace_back(name, eval(expr));
  if (arguments.star)
    for (Value& value : items_of(eval(arguments.star), heap_))
      all.positional.push_back(std::move(value));
  if (!arguments.double_star) return all;
  Value named = eval(arguments.double_star);
  if (!named.is(Kind::kDict)) fail("** needs a dict, not {}", type_name(named));
  for (const auto& [name, value] : named.dict().entries) {
    if (!name.is(Kind::kString)) fail("** needs a dict whose keys are strings");
    for (const auto& given : all.named)
      if (given.first == name.text()) fail("the argument '{}' is given twice", name.text());
    heap_.work(1 + all.named.size() / 8);
    all.named.emplace_back(std::string(name.text()), value);
  }
  return all;
}

Value Evaluator::call(const Value& callee, const CallArguments& arguments) {
  Nested nested(*this);
  if (callee.is(Kind::kUndefined)) fail_undefined(callee);
  if (callee.is(Kind::kMacro)) return call_macro(*callee.as<MacroObject>(), arguments);
  if (!callee.is(Kind::kFunction)) fail("a {} cannot be called", type_name(callee));
  const auto& function = *callee.as<FunctionObject>();
  if (function.self.is(Kind::kUndefined)) return function.function(*this, arguments);
  CallArguments with_self{{function.self}, arguments.named};
  with_self.positional.insert(with_self.positional.end(), arguments.positional.begin(),
                              arguments.positional.end());
  return function.function(*this, with_self);
}

Value Evaluator::bind_method(const Value& object, std::string_view name) {
  Method method = find_method(object, name);
  if (method.unsupported) fail("the method '{}' of {} is not supported", name, type_name(object));
  if (method.unsafe)
    return make_undefined(heap_,
                          fmt::format("'{}' of a {} would change it, which templates may not", name,
                                      type_name(object)));
  if (!method.function) return Value();
  return Value(Kind::kFunction, new FunctionObject(heap_, name, method.function, object));
}

Value Evaluator::attribute(const Value& object, std::string_view name) {
  if (object.is(Kind::kUndefined)) fail_undefined(object);
  if (object.is(Kind::kNamespace)) {
    heap_.work(1 + object.as<Namespace>()->attributes.size() / 8);
    if (const Value* found = object.as<Namespace>()->find(name)) return *found;
  } else if (object.is(Kind::kLoop)) {
    Value found = loop_attribute(*object.as<Loop>(), object, name);
    if (!found.is(Kind::kUndefined) || found.object()) return found;
  } else {
    if (object.is(Kind::kSequence)) {
      const Sequence& sequence = object.sequence();
      for (size_t i = 0; i < sequence.names.size(); ++i)
        if (sequence.names[i] == name) return sequence.items[i];
    }
    Value method = bind_method(object, name);
    if (!method.is(Kind::kUndefined) || method.object()) return method;
    if (object.is(Kind::kDict))
      if (const Value* found = object.dict().find(name, heap_)) return *found;
  }
  return make_undefined(
      heap_, object.is(Kind::kNone)
                 ? fmt::format("None has no attribute '{}'", name)
                 : fmt::format("'{} object' has no attribute '{}'", type_name(object), name));
}

Value Evaluator::item(const Value& object, const Value& key) {
  if (!key.is(Kind::kString) || object.is(Kind::kUndefined)) return subscript(object, key, heap_);
  if (object.is(Kind::kDict))
    if (const Value* found = object.dict().find(key.text(), heap_)) return *found;
  return attribute(object, key.text());
}

Value Evaluator::loop_attribute(Loop& loop, const Value& self, std::string_view name) {
  if (name == "index") return Value::integer(loop.index0 + 1);
  if (name == "index0") return Value::integer(loop.index0);
  if (name == "first") return Value::boolean(loop.index0 == 0);
  if (name == "last") return Value::boolean(!loop_peek(loop));
  if (name == "length") return Value::integer(loop_length(loop));
  if (name == "revindex") return Value::integer(loop_length(loop) - loop.index0);
  if (name == "revindex0") return Value::integer(loop_length(loop) - loop.index0 - 1);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem")
    return loop.index0 == 0 ? make_undefined(heap_, "there is no previous item") : loop.before;
  if (name == "nextitem")
    return loop_peek(loop) ? loop.ahead.front() : make_undefined(heap_, "there is no next item");
  return bind_method(self, name);
}

Value Evaluator::make_namespace(const std::vector<Entry>& entries) {
  Ref<Namespace> made(new Namespace(heap_, entries.size()));
  namespaces_.push_back(made);
  for (const auto& [name, value] : entries) {
    if (!name.is(Kind::kString)) fail("a namespace's attributes are named by strings");
    made->attributes.emplace_back(std::string(name.text()), value);
  }
  return Value(Kind::kNamespace, made.get());
}

}  // namespace kvick::text::jinja
