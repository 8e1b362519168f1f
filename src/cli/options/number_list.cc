#include "cli/options/number_list.h"

#include <algorithm>
#include <charconv>

namespace kvick::cli {
namespace {

base::Result<uint32_t> parse_number(std::string_view option, std::string_view text,
                                    std::string_view item, const NumberRange& range) {
  uint32_t number = 0;
  const char* end = item.data() + item.size();
  const auto [at, error] = std::from_chars(item.data(), end, number);
  const bool too_large = error == std::errc::result_out_of_range;
  if (!too_large && (error != std::errc() || at != end))
    return base::fail(
        "{} '{}': '{}' is no number; give numbers with commas between them, as in 1,2", option,
        text, item);
  if (too_large || number < range.low || number > range.high)
    return base::fail("{} '{}': {} is not from {} to {}", option, text, item, range.low,
                      range.high);
  return number;
}

}  // namespace

base::Result<std::vector<uint32_t>> parse_numbers(std::string_view option, std::string_view text,
                                                  const NumberRange& range) {
  std::vector<uint32_t> numbers;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    KVICK_TRY(const uint32_t number,
              parse_number(option, text, text.substr(begin, end - begin), range));
    if (std::find(numbers.begin(), numbers.end(), number) != numbers.end())
      return base::fail("{} '{}': {} is there twice", option, text, number);
    if (numbers.size() == kMostNumbers)
      return base::fail("{}: more than {} numbers", option, kMostNumbers);
    numbers.push_back(number);
    begin = end + 1;
  }
  if (range.zero_means_none && numbers.size() > 1 &&
      std::find(numbers.begin(), numbers.end(), 0U) != numbers.end())
    return base::fail("{} '{}': 0 means none, so no other number can stand beside it", option,
                      text);
  return numbers;
}

}  // namespace kvick::cli
