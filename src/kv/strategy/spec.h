#pragma once
// The text that names a strategy, a policy or a tier: NAME[:key=value[,key=value]...].

#include <map>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvick::kv {

struct Spec {
  std::string name;
  std::map<std::string, std::string> options;
};
base::Result<Spec> parse_spec(std::string_view text);
std::string spec_text(const Spec& spec);  // the inverse

}  // namespace kvick::kv
