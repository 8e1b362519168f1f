// Runs statements.
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/template/eval.h"
#include "text/template/eval_nested.h"

namespace kvick::text::jinja {

Value* Scope::find(std::string_view name) {
  for (auto& variable : variables)
    if (variable.first == name) return &variable.second;
  return nullptr;
}

void Scope::set(std::string_view name, Value value, Heap& heap) {
  heap.work(1 + variables.size() / 16);
  if (Value* found = find(name))
    *found = std::move(value);
  else
    variables.emplace_back(name, std::move(value));
}

Loop::Loop(Heap& heap, Ref<Sequence> items)
    : Object(heap, 0, items->depth() + 1), source(std::move(items)) {}

bool Loop::take(Value& item) {
  size_t& at = source->flavour == Flavour::kGenerator ? source->next : next;
  if (at >= source->items.size()) return false;
  item = source->items[at++];
  return true;
}

int64_t Loop::left() const {
  const size_t at = source->flavour == Flavour::kGenerator ? source->next : next;
  return static_cast<int64_t>(source->items.size() - at);
}

bool Evaluator::passes(Loop& loop, const Value& item) {
  if (!loop.node->condition) return true;
  Ref<Scope> outer = scope_;
  scope_ = Ref<Scope>(new Scope(heap_, loop.scope));
  assign(loop.node->target, item);
  const bool passed = truthy(eval(loop.node->condition));
  scope_ = outer;
  return passed;
}

bool Evaluator::loop_peek(Loop& loop) {
  if (!loop.ahead.empty()) return true;
  if (!loop.scope) return false;
  for (Value item; loop.take(item);) {
    heap_.work(1);
    if (!passes(loop, item)) continue;
    loop.ahead.push_back(std::move(item));
    return true;
  }
  return false;
}

int64_t Evaluator::loop_length(Loop& loop) {
  if (loop.length >= 0) return loop.length;
  if (!loop.scope) fail("the length of a loop that has ended is not known");
  if (loop.node->condition) {
    heap_.expect(static_cast<size_t>(loop.left()) * sizeof(Value));
    for (Value item; loop.take(item);)
      if (passes(loop, item)) loop.ahead.push_back(std::move(item));
    loop.length = loop.index0 + 1 + static_cast<int64_t>(loop.ahead.size());
  } else {
    loop.length = loop.index0 + 1 + static_cast<int64_t>(loop.ahead.size()) + loop.left();
  }
  return loop.length;
}

void Evaluator::write(std::string_view text) {
  if (text.size() > options_.max_output_bytes - std::min(sink_->size(), options_.max_output_bytes))
    fail("it writes more than {} bytes", options_.max_output_bytes);
  heap_.take(text.size());
  sink_->append(text);
}

Evaluator::Flow Evaluator::run_body(const ast::Body& body) {
  Nested nested(*this);
  for (const ast::Statement& statement : body) {
    heap_.work(1);
    const int outer = std::exchange(line_, statement.line);
    Flow flow = std::visit([this](const auto& node) { return exec(node); }, statement.node);
    line_ = outer;
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Evaluator::Flow Evaluator::run_scoped(const ast::Body& body) {
  Ref<Scope> outer = scope_;
  scope_ = Ref<Scope>(new Scope(heap_, outer));
  Flow flow = run_body(body);
  scope_ = outer;
  return flow;
}

Evaluator::Flow Evaluator::exec(const ast::Text& node) {
  write(node.text);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::exec(const ast::Print& node) {
  Value value = eval(node.value);
  if (value.is(Kind::kString))
    write(value.text());
  else
    write(text_of(value));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::exec(const ast::If& node) {
  for (const auto& [condition, body] : node.branches)
    if (truthy(eval(condition))) return run_body(body);
  return run_body(node.otherwise);
}

Evaluator::Flow Evaluator::exec(const ast::For& node) {
  Value items = eval(node.items);
  if (!items.is(Kind::kSequence)) items = make_list(heap_, items_of(items, heap_));
  Ref<Loop> loop(new Loop(heap_, Ref<Sequence>(items.as<Sequence>())));
  // Whatever ends the loop, its references are dropped, because they might refer back to it.
  struct End {
    Loop& loop;
    ~End() {
      loop.scope = Ref<Scope>();
      loop.last_changed = Value();
    }
  } end{*loop};
  loop->node = &node;
  loop->scope = scope_;
  Ref<Scope> outer = scope_, inner;
  while (loop_peek(*loop)) {
    heap_.work(1);
    loop->before = std::exchange(loop->current, loop->ahead.front());
    loop->ahead.pop_front();
    ++loop->index0;
    // A macro may have kept the scope of the last iteration.
    if (!inner || inner.get()->shared()) inner = Ref<Scope>(new Scope(heap_, outer));
    inner->variables.clear();
    inner->set("loop", Value(Kind::kLoop, loop.get()), heap_);
    scope_ = inner;
    assign(node.target, loop->current);
    Flow flow = run_body(node.body);
    scope_ = outer;
    if (flow == Flow::kBreak) break;
  }
  return loop->index0 < 0 ? run_scoped(node.otherwise) : Flow::kNext;
}

void Evaluator::assign(const ast::Target& target, const Value& value) {
  if (target.unpacks) return unpack(target, value);
  if (target.attribute.empty()) return scope_->set(target.name, value, heap_);
  for (Scope* scope = scope_.get(); scope; scope = scope->parent.get()) {
    const Value* found = scope->find(target.name);
    if (!found) continue;
    if (!found->is(Kind::kNamespace)) break;
    auto& space = *found->as<Namespace>();
    heap_.work(1 + space.attributes.size() / 8);
    if (Value* old = space.find(target.attribute))
      *old = value;
    else
      space.attributes.emplace_back(target.attribute, value);
    return;
  }
  fail("'{}' is not a namespace, so its attributes cannot be set", target.name);
}

void Evaluator::unpack(const ast::Target& target, const Value& value) {
  if (value.is(Kind::kUndefined)) fail_undefined(value);
  Values items = items_of(value, heap_);
  if (items.size() != target.several.size())
    fail("{} values cannot be unpacked into {} names", items.size(), target.several.size());
  for (size_t i = 0; i < items.size(); ++i) assign(target.several[i], items[i]);
}

Evaluator::Flow Evaluator::exec(const ast::Set& node) {
  assign(node.target, eval(node.value));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::exec(const ast::SetBlock& node) {
  Value text;
  {
    Capture capture(*this);
    if (Flow flow = run_scoped(node.body); flow != Flow::kNext) return flow;
    text = string(capture.take());
  }
  if (node.filter) {
    const Value* outer = std::exchange(filter_input_, &text);
    Value filtered = eval(node.filter);
    filter_input_ = outer;
    text = std::move(filtered);
  }
  assign(node.target, text);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::exec(const ast::FilterBlock& node) {
  Value text;
  {
    Capture capture(*this);
    if (Flow flow = run_scoped(node.body); flow != Flow::kNext) return flow;
    text = string(capture.take());
  }
  const Value* outer = std::exchange(filter_input_, &text);
  Value filtered = eval(node.filter);
  filter_input_ = outer;
  write(text_of(filtered));
  return Flow::kNext;
}

Evaluator::Flow Evaluator::exec(const ast::With& node) {
  Values values;
  for (const auto& assignment : node.assignments) values.push_back(eval(assignment.second));
  Ref<Scope> outer = scope_;
  scope_ = Ref<Scope>(new Scope(heap_, outer));
  for (size_t i = 0; i < values.size(); ++i) assign(node.assignments[i].first, values[i]);
  Flow flow = run_body(node.body);
  scope_ = outer;
  return flow;
}

Value Evaluator::make_macro(const ast::Macro& macro) {
  captured_.push_back(scope_);
  return Value(Kind::kMacro, new MacroObject(heap_, macro, scope_));
}

Evaluator::Flow Evaluator::exec(const ast::MacroStatement& node) {
  Value macro = make_macro(*node.macro);
  scope_->set(node.macro->name, std::move(macro), heap_);
  return Flow::kNext;
}

Evaluator::Flow Evaluator::exec(const ast::CallBlock& node) {
  const auto& call_node = std::get<ast::Call>(node.call->node);
  Value callee = eval(call_node.callee);
  CallArguments arguments = eval_arguments(nullptr, call_node.arguments);
  arguments.named.emplace_back("caller", make_macro(*node.caller));
  write(text_of(call(callee, arguments)));
  return Flow::kNext;
}

void Evaluator::bind_parameters(const MacroObject& macro, const CallArguments& arguments) {
  const auto& parameters = macro.node.parameters;
  Values extra;
  std::vector<Entry> extra_named;
  for (size_t i = parameters.size(); i < arguments.positional.size(); ++i)
    extra.push_back(arguments.positional[i]);
  if (!extra.empty() && !macro.node.takes_varargs)
    fail("the macro '{}' takes {} arguments, not {}", macro.node.name, parameters.size(),
         arguments.positional.size());
  std::vector<const Value*> named(parameters.size(), nullptr);
  const Value* caller = nullptr;
  for (const auto& [name, value] : arguments.named) {
    size_t i = 0;
    while (i < parameters.size() && parameters[i].first != name) ++i;
    if (i < parameters.size() && i >= arguments.positional.size())
      named[i] = &value;
    else if (name == "caller" && macro.node.takes_caller)
      caller = &value;
    else if (macro.node.takes_kwargs)
      extra_named.emplace_back(string(name), value);
    else
      fail("the macro '{}' takes no keyword argument '{}'", macro.node.name, name);
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    Value value;
    if (i < arguments.positional.size())
      value = arguments.positional[i];
    else if (named[i])
      value = *named[i];
    else if (parameters[i].second)
      value = eval(parameters[i].second);
    else
      value = make_undefined(heap_,
                             fmt::format("the parameter '{}' was not given", parameters[i].first));
    scope_->set(parameters[i].first, std::move(value), heap_);
  }
  if (macro.node.takes_caller && !scope_->find("caller"))
    scope_->set("caller", caller ? *caller : make_undefined(heap_, "no caller is defined"), heap_);
  if (macro.node.takes_varargs) scope_->set("varargs", make_tuple(heap_, std::move(extra)), heap_);
  if (macro.node.takes_kwargs) scope_->set("kwargs", make_dict(heap_, extra_named), heap_);
}

Value Evaluator::call_macro(MacroObject& macro, const CallArguments& arguments) {
  Ref<Scope> outer = scope_;
  scope_ = Ref<Scope>(new Scope(heap_, macro.scope));
  bind_parameters(macro, arguments);
  Capture capture(*this);
  run_body(macro.node.body);
  scope_ = outer;
  return string(capture.take());
}

}  // namespace kvick::text::jinja
