#include "server/request/token_list.h"

#include "server/request/fields.h"

namespace kvick::server {

ApiResult<std::vector<engine::Token>> read_tokens(const Json& list, const std::string& name) {
  std::vector<engine::Token> tokens;
  tokens.reserve(list.size());
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > INT32_MAX)
      return bad_field(name, "{} has an element {} that is no token id", name,
                       in_quotes(to_text(id)));
    tokens.push_back(id.get<engine::Token>());
  }
  return tokens;
}

}  // namespace kvick::server
