#include "text/template/chat_template.h"

#include "text/jinja/parser.h"
#include "text/template/eval.h"

namespace kvick::text {
namespace {

base::Error error_at(int line, const std::string& message) {
  return base::fail("chat template, line {}: {}", line, message);
}

}  // namespace

struct ChatTemplate::Program {
  jinja::ast::Body body;
};

ChatTemplate::ChatTemplate(std::unique_ptr<Program> program) : program_(std::move(program)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

base::Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  try {
    auto program = std::make_unique<Program>();
    program->body = jinja::parse_template(source);
    return ChatTemplate(std::move(program));
  } catch (const jinja::Failure& failure) {
    return error_at(failure.line, failure.message);
  }
}

base::Result<std::string> ChatTemplate::render(const nlohmann::ordered_json& context,
                                               const RenderOptions& options) const {
  if (!context.is_object())
    return base::fail("the context of a chat template must be a JSON object, not {}",
                      context.type_name());
  jinja::Evaluator evaluator(context, options);
  try {
    return evaluator.run(program_->body);
  } catch (const jinja::Failure& failure) {
    return error_at(failure.line ? failure.line : evaluator.line(), failure.message);
  }
}

}  // namespace kvick::text
