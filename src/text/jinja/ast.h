#pragma once
// A parsed template. Immutable after parsing and shared by renderings on any thread.
// Larger than a header should be because the node types of one grammar refer to each other.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "text/jinja/builtins.h"
#include "text/jinja/operators.h"

namespace kvick::text::jinja::ast {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;  // may be null where a part is optional
using Exprs = std::vector<ExprPtr>;

struct Arguments {
  Exprs positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;
};

struct None {};
struct Bool {
  bool value;
};
struct Integer {
  int64_t value;
};
struct Float {
  double value;
};
struct String {
  std::string value;
};
struct Name {
  std::string name;
};
struct List {
  Exprs items;
  bool tuple;
};
struct DictLiteral {
  std::vector<std::pair<ExprPtr, ExprPtr>> entries;
};
struct Attribute {
  ExprPtr object;
  std::string name;
};
struct Subscript {
  ExprPtr object, index;
};
struct Slice {
  ExprPtr object, start, stop, step;
};
struct Call {
  ExprPtr callee;
  Arguments arguments;
};
struct Filter {
  ExprPtr value;  // null in a filter block, whose text is the value
  Function function;
  Arguments arguments;
};
struct Test {
  ExprPtr value;
  TestFunction function;
  Arguments arguments;
};
struct Negate {
  ExprPtr value;
  bool minus;
};
struct Not {
  ExprPtr value;
};
struct Binary {
  BinaryOp op;
  ExprPtr left, right;
};
struct Concat {
  Exprs parts;
};
struct Compare {
  ExprPtr first;
  std::vector<std::pair<CompareOp, ExprPtr>> rest;
};
struct Logical {
  bool is_and;
  ExprPtr left, right;
};
struct Conditional {
  ExprPtr condition, then, otherwise;
};

struct Expr {
  using Node = std::variant<None, Bool, Integer, Float, String, Name, List, DictLiteral, Attribute,
                            Subscript, Slice, Call, Filter, Test, Negate, Not, Binary, Concat,
                            Compare, Logical, Conditional>;
  Node node;
  int line;
  int depth;  // levels of nested expressions, including this one
};

struct Statement;
using Body = std::vector<Statement>;

// What an assignment assigns to: a name, a namespace's attribute, or several of these.
struct Target {
  std::string name;
  std::string attribute;        // of the namespace `name`
  std::vector<Target> several;  // unpacked in order; name is unused
  bool unpacks = false;
};

struct Text {
  std::string text;
};
struct Print {
  ExprPtr value;
};
struct If {
  std::vector<std::pair<ExprPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExprPtr items, condition;
  Body body, otherwise;
};
struct Set {
  Target target;
  ExprPtr value;
};
struct SetBlock {
  Target target;
  ExprPtr filter;  // a chain of filters whose innermost value is null, or null
  Body body;
};
struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExprPtr>> parameters;  // null: no default
  Body body;
  bool takes_varargs = false, takes_kwargs = false, takes_caller = false;
};
struct MacroStatement {
  std::unique_ptr<Macro> macro;
};
struct CallBlock {
  ExprPtr call;
  std::unique_ptr<Macro> caller;
};
struct FilterBlock {
  ExprPtr filter;
  Body body;
};
struct With {  // also {% generation %}, which assigns nothing
  std::vector<std::pair<Target, ExprPtr>> assignments;
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  using Node = std::variant<Text, Print, If, For, Set, SetBlock, MacroStatement, CallBlock,
                            FilterBlock, With, Break, Continue>;
  Node node;
  int line;
};

}  // namespace kvick::text::jinja::ast
