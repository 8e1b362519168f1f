#include "server/responses/item_list.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include "server/request/fields.h"
#include "server/request/target.h"

namespace kvick::server {
namespace {

ApiResult<size_t> read_limit(const std::string& text) {
  constexpr size_t kDefault = 20, kMost = 100;
  if (text.empty()) return kDefault;
  size_t limit = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), limit);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || limit < 1 || limit > kMost)
    return bad_field("limit", "limit must be a whole number from 1 to {}", kMost);
  return limit;
}

}  // namespace

ApiResult<Json> item_list(const Json& items, std::string_view target) {
  KVICK_TRY(const size_t limit, read_limit(query_of(target, "limit")));
  const std::string order = query_of(target, "order"), after = query_of(target, "after");
  if (!order.empty() && order != "asc" && order != "desc")
    return bad_field("order", "order must be asc or desc");
  std::vector<const Json*> sorted;
  for (const Json& item : items) sorted.push_back(&item);
  if (order != "asc") std::reverse(sorted.begin(), sorted.end());
  auto first = sorted.begin();
  if (!after.empty()) {
    first =
        std::find_if(first, sorted.end(), [&](const Json* one) { return (*one)["id"] == after; });
    if (first == sorted.end())
      return bad_field("after", "after names {}, which is not an item of this list",
                       in_quotes(after));
    ++first;
  }
  const auto rest = static_cast<size_t>(sorted.end() - first);
  Json data = Json::array();
  for (size_t i = 0; i < std::min(limit, rest); ++i)
    data.push_back(*first[static_cast<ptrdiff_t>(i)]);
  const bool none = data.empty();
  const Json first_id = none ? Json("") : data.front()["id"];
  const Json last_id = none ? Json("") : data.back()["id"];
  return Json({{"object", "list"},
               {"data", std::move(data)},
               {"first_id", first_id},
               {"last_id", last_id},
               {"has_more", rest > limit}});
}

}  // namespace kvick::server
