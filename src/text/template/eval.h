#pragma once
// Runs a parsed template once: one Evaluator, one rendering, one thread.
// Larger than a header should be because every kind of node has its method here.

#include <deque>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/builtins.h"
#include "text/jinja/value.h"
#include "text/template/chat_template.h"

namespace kvick::text::jinja {

// Names and their values. Lookups continue in the parent. The names are owned by the syntax tree,
// the context or the tables.
struct Scope : Object {
  Scope(Heap& heap, Ref<Scope> outer) : Object(heap, 160, 1), parent(std::move(outer)) {}
  Value* find(std::string_view name);  // without the parents
  void set(std::string_view name, Value value, Heap& heap);
  Ref<Scope> parent;
  std::vector<std::pair<std::string_view, Value>> variables;
};

// The variable `loop`. Items are taken one by one, because the loop's condition may depend on what
// its body did.
struct Loop : Object {
  Loop(Heap& heap, Ref<Sequence> items);
  bool take(Value& item);  // takes the next item, before the condition is evaluated
  int64_t left() const;    // number of items not yet taken
  Ref<Sequence> source;
  size_t next = 0;
  const ast::For* node = nullptr;
  Ref<Scope> scope;         // where the condition is evaluated; null once the loop has ended
  std::deque<Value> ahead;  // items that passed the condition but are not yet current
  Value before, current, last_changed;
  bool ever_changed = false;
  int64_t index0 = -1, length = -1;
};

struct MacroObject : Object {
  MacroObject(Heap& heap, const ast::Macro& macro, Ref<Scope> where)
      : Object(heap, 0, 1), node(macro), scope(std::move(where)) {}
  const ast::Macro& node;
  Ref<Scope> scope;
};

// A function of the tables; if it is a method, bound to an object.
struct FunctionObject : Object {
  FunctionObject(Heap& heap, std::string_view n, Function f, Value of)
      : Object(heap, n.size(), of.depth() + 1), name(n), function(f), self(std::move(of)) {}
  const std::string name;
  const Function function;
  const Value self;  // undefined if it is not a method
};

class Evaluator {
 public:
  Evaluator(const nlohmann::ordered_json& context, const RenderOptions& options);
  ~Evaluator();

  std::string run(const ast::Body& body);
  int line() const { return line_; }  // the line that ran when a Failure was thrown

  // For the functions in the tables.
  Heap& heap() { return heap_; }
  const RenderOptions& options() const { return options_; }
  Value string(std::string text, bool markup = false) {
    return make_string(heap_, std::move(text), markup);
  }
  std::string text_of(const Value& value);  // str(value)
  // depth: number of lists and dictionaries around the value.
  Value from_json(const nlohmann::ordered_json& json, int depth = 0);
  Value call(const Value& callee, const CallArguments& arguments);
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object,
             const Value& key);  // object[key], attributes as the second choice
  Value make_namespace(const std::vector<Entry>& entries);
  int64_t loop_length(Loop& loop);
  bool loop_peek(Loop& loop);  // true if there is a next item

 private:
  enum class Flow { kNext, kBreak, kContinue };
  class Nested;
  class Capture;

  // Statements (exec.cc).
  Flow run_body(const ast::Body& body);
  Flow exec(const ast::Text& node);
  Flow exec(const ast::Print& node);
  Flow exec(const ast::If& node);
  Flow exec(const ast::For& node);
  Flow exec(const ast::Set& node);
  Flow exec(const ast::SetBlock& node);
  Flow exec(const ast::MacroStatement& node);
  Flow exec(const ast::CallBlock& node);
  Flow exec(const ast::FilterBlock& node);
  Flow exec(const ast::With& node);
  Flow exec(const ast::Break&) { return Flow::kBreak; }
  Flow exec(const ast::Continue&) { return Flow::kContinue; }
  Flow run_scoped(const ast::Body& body);
  void assign(const ast::Target& target, const Value& value);
  void unpack(const ast::Target& target, const Value& value);
  void write(std::string_view text);
  Value make_macro(const ast::Macro& macro);
  Value call_macro(MacroObject& macro, const CallArguments& arguments);
  void bind_parameters(const MacroObject& macro, const CallArguments& arguments);
  bool passes(Loop& loop, const Value& item);

  // Expressions (eval.cc).
  Value eval(const ast::ExprPtr& expr);
  Value eval(const ast::None&) { return Value::none(); }
  Value eval(const ast::Bool& node) { return Value::boolean(node.value); }
  Value eval(const ast::Integer& node) { return Value::integer(node.value); }
  Value eval(const ast::Float& node) { return Value::real(node.value); }
  Value eval(const ast::String& node) { return string(node.value); }
  Value eval(const ast::Name& node);
  Value eval(const ast::List& node);
  Value eval(const ast::DictLiteral& node);
  Value eval(const ast::Attribute& node);
  Value eval(const ast::Subscript& node);
  Value eval(const ast::Slice& node);
  Value eval(const ast::Call& node);
  Value eval(const ast::Filter& node);
  Value eval(const ast::Test& node);
  Value eval(const ast::Negate& node);
  Value eval(const ast::Not& node);
  Value eval(const ast::Binary& node);
  Value eval(const ast::Concat& node);
  Value eval(const ast::Compare& node);
  Value eval(const ast::Logical& node);
  Value eval(const ast::Conditional& node);
  std::optional<Value> change_held_list(const ast::Call& node);
  CallArguments eval_arguments(const Value* first, const ast::Arguments& arguments);
  Value loop_attribute(Loop& loop, const Value& self, std::string_view name);
  Value bind_method(const Value& object, std::string_view name);

  const nlohmann::ordered_json& context_;
  const RenderOptions& options_;
  Heap heap_;
  int line_ = 1, depth_ = 0;
  Ref<Scope> scope_;
  std::string output_;
  std::string* sink_ = &output_;
  const Value* filter_input_ = nullptr;  // the text of the filter block that is being applied
  // Objects that may contain themselves; cleared when the rendering ends.
  std::vector<Ref<Namespace>> namespaces_;
  std::vector<Ref<Scope>> captured_;
};

}  // namespace kvick::text::jinja
