#include "store/store_url.h"

#include <charconv>
#include <optional>

namespace kvick::store {
namespace {

template <typename T>
std::optional<T> number_of(std::string_view text, T most) {
  T value = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size() ||
      value > most)
    return std::nullopt;
  return value;
}

// Decodes percent-encoding: %40 becomes @. Nothing if a % lacks its two digits.
std::optional<std::string> decoded(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    uint8_t byte = static_cast<uint8_t>(text[i]);
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const char* digits = &text[i + 1];
      if (std::from_chars(digits, digits + 2, byte, 16).ptr != digits + 2) return std::nullopt;
      i += 2;
    }
    out += static_cast<char>(byte);
  }
  return out;
}

base::Error wrong(std::string_view what) {
  return base::fail("{}; a store is redis://[[user]:password@]host[:port][/database], or rediss://",
                    what);
}

base::Status<> read_host(std::string_view text, StoreAddress& address) {
  const bool bracketed = text.starts_with('[');
  const size_t end = bracketed ? text.find(']') : text.find(':');
  if (bracketed && end == std::string_view::npos) return wrong("the address lacks its \"]\"");
  address.host = text.substr(bracketed ? 1 : 0, bracketed ? end - 1 : end);
  const std::string_view rest =
      end == std::string_view::npos ? "" : text.substr(end + (bracketed ? 1 : 0));
  if (address.host.empty()) return wrong("the store's URL has no host");
  if (address.host.find_first_of(" \t\r\n") != std::string::npos)
    return wrong("the store's host has a space in it");
  if (rest.empty()) return base::Done{};
  const auto port =
      rest.starts_with(':') ? number_of<uint16_t>(rest.substr(1), UINT16_MAX) : std::nullopt;
  if (!port || *port == 0) return wrong("the store's port must be a number from 1 to 65535");
  address.port = *port;
  return base::Done{};
}

base::Status<> read_user(std::string_view text, StoreAddress& address) {
  const size_t colon = text.find(':');
  const auto user = decoded(text.substr(0, colon));
  const auto password = decoded(colon == std::string_view::npos ? "" : text.substr(colon + 1));
  if (!user || !password) return wrong("a % in the store's user or password needs two digits");
  if (password->empty()) return wrong("the store's URL has a user but no password");
  address.user = *user;
  address.password = *password;
  return base::Done{};
}

}  // namespace

std::string StoreAddress::text() const { return fmt::format("{}:{}/{}", host, port, database); }

base::Result<StoreAddress> parse_store_url(std::string_view url) {
  StoreAddress address;
  if (url.starts_with("rediss://"))
    address.tls = true;
  else if (!url.starts_with("redis://"))
    return wrong("the store's URL begins with neither redis:// nor rediss://");
  url.remove_prefix(url.find("//") + 2);
  const size_t slash = url.rfind('/');
  const size_t at = url.rfind('@');
  if (slash != std::string_view::npos && (at == std::string_view::npos || slash > at)) {
    const std::string_view database = url.substr(slash + 1);
    const auto number = number_of<uint32_t>(database, 1'000'000);
    if (!number && !database.empty()) return wrong("the store's database must be a number");
    address.database = number.value_or(0);
    url = url.substr(0, slash);
  }
  if (at != std::string_view::npos) {
    KVICK_TRY_VOID(read_user(url.substr(0, at), address));
    url.remove_prefix(at + 1);
  }
  KVICK_TRY_VOID(read_host(url, address));
  return address;
}

}  // namespace kvick::store
