#pragma once
// Parses tokens to a syntax tree, by the grammar of Jinja2's own parser. One Parser parses one
// template.

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace kvick::text::jinja {

// Throws a Failure with its line for a syntax error, an unknown statement, an unknown filter or
// test outside of any branch, or nesting that is too deep for the stack.
ast::Body parse_template(std::string_view source);

// Parses expressions; parser.cc parses the statements.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

 protected:
  // Counts how deep the parser has recursed.
  class Nested {
   public:
    explicit Nested(ExpressionParser& parser);
    ~Nested() { --parser_.nesting_; }

   private:
    ExpressionParser& parser_;
  };

  const Token& current() const { return tokens_[at_]; }
  const Token& ahead(size_t n = 1) const { return tokens_[std::min(at_ + n, tokens_.size() - 1)]; }
  Token take();
  bool is_operator(std::string_view text) const;
  bool is_name(std::string_view name) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view name);
  void expect_operator(std::string_view text);
  std::string expect_name();
  [[noreturn]] void error(std::string message, int line = 0) const;
  [[noreturn]] void unexpected(std::string_view wanted) const;

  ast::ExprPtr expression(bool with_condition = true);
  // Parses a tuple of expressions separated by commas, or a single expression.
  ast::ExprPtr tuple(bool with_condition, bool parenthesised);
  ast::ExprPtr unary(bool with_filter = true);
  ast::ExprPtr filters(ast::ExprPtr value, bool begun);  // begun: no | precedes the first filter
  ast::Arguments arguments();

  // Special names that a macro uses. mentions_: the macros around the current place.
  struct Mentions {
    bool varargs = false, kwargs = false, caller = false;
  };
  std::vector<Mentions> mentions_;
  // The filters and tests so far that are not known and would run whatever a condition says.
  std::vector<Failure> unknown_;

 private:
  ast::ExprPtr make(int line, ast::Expr::Node node) const;

  ast::ExprPtr condition();
  ast::ExprPtr logical_or();
  ast::ExprPtr logical_and();
  ast::ExprPtr logical_not();
  ast::ExprPtr comparison();
  ast::ExprPtr sum();
  ast::ExprPtr concatenation();
  ast::ExprPtr product();
  ast::ExprPtr power();
  ast::ExprPtr primary();
  ast::ExprPtr name(const Token& token);
  ast::ExprPtr number(const Token& token);
  ast::ExprPtr list();
  ast::ExprPtr dict();
  ast::ExprPtr postfix(ast::ExprPtr value);
  ast::ExprPtr filtered(ast::ExprPtr value);
  ast::ExprPtr attribute(ast::ExprPtr object);
  ast::ExprPtr subscript(ast::ExprPtr object);
  ast::ExprPtr call(ast::ExprPtr callee);
  ast::ExprPtr test(ast::ExprPtr value);
  ast::Arguments test_arguments();

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
};

}  // namespace kvick::text::jinja
