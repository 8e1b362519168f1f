// The input is a schema, a zero byte, and the choices by which an answer is drawn. Checked: the
// schema is compiled or refused; every mask leaves a token; an answer that ends is an instance.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string_view>

#include "text/grammar/test_choices.h"
#include "text/schema/json_constraint.h"
#include "text/schema/test_validator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using kvick::text::Json;
  static const auto kTokens = kvick::text::byte_tokens();
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t cut = std::min(input.find('\0'), input.size());
  const Json schema = Json::parse(input.substr(0, cut), nullptr, false);
  if (schema.is_discarded()) return 0;
  const auto made = kvick::text::json_constraint(kTokens, schema);
  if (!made.ok()) return 0;
  const auto constraint = (*made)->clone();
  const auto text =
      kvick::text::chosen_answer(*constraint, input.substr(std::min(cut + 1, input.size())));
  if (!text) return 0;
  const Json instance = Json::parse(*text, nullptr, false);
  if (instance.is_discarded()) std::abort();
  try {
    if (!kvick::text::valid(instance, schema)) std::abort();
  } catch (const Json::exception&) {  // a malformed keyword that the compiler ignored
  }
  return 0;
}
