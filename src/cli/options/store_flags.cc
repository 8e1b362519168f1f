#include "cli/options/store_flags.h"

#include <fstream>

#include "store/redis_tier.h"

namespace kvick::cli {
namespace {

base::Result<store::StoreAddress> address_of(const StoreFlags& flags) {
  auto address = store::parse_store_url(flags.url);
  if (!address.ok()) return base::fail("--kv-store: {}", address.error().message);
  address->ca_file = flags.ca_file;
  if (!flags.ca_file.empty() && !address->tls)
    return base::fail(
        "--kv-store-ca is for TLS: give --kv-store a URL that begins with rediss://, or leave "
        "--kv-store-ca out");
  if (!flags.ca_file.empty() && !std::ifstream(flags.ca_file).good())
    return base::fail("--kv-store-ca: {} cannot be read", flags.ca_file);
  if (flags.password_file.empty()) return *std::move(address);
  std::ifstream file(flags.password_file);
  if (!std::getline(file, address->password) || address->password.empty())
    return base::fail(
        "--kv-store-password-file: the first line of {} must be the password, but it is empty or "
        "cannot be read",
        flags.password_file);
  return *std::move(address);
}

}  // namespace

void add_store_flags(const Command& command, StoreFlags& flags) {
  const char* group = "Shared store";
  command
      .add_option("--kv-store", flags.url,
                  "Redis or Valkey where several servers share cached prefixes: "
                  "redis://[[user]:password@]host[:port][/database], rediss:// for TLS")
      .in_group(group);
  command
      .add_option(
          "--kv-store-password-file", flags.password_file,
          "file whose first line is the store's password; a password in the URL is visible in ps")
      .takes(ValueKind::kFile)
      .in_group(group);
  command
      .add_option("--kv-store-ca", flags.ca_file,
                  "file of certificates that rediss:// trusts (default: the system's)")
      .takes(ValueKind::kFile)
      .in_group(group);
}

base::Status<> check(const StoreFlags& flags) {
  if (!flags.wanted() && !(flags.password_file.empty() && flags.ca_file.empty()))
    return base::fail("--kv-store-password-file and --kv-store-ca need --kv-store");
  if (!flags.wanted()) return base::Done{};
  KVICK_TRY_VOID(address_of(flags));
  return base::Done{};
}

base::Result<std::shared_ptr<engine::PrefixTier>> open_store(
    const StoreFlags& flags, std::function<void(const std::string&)> report) {
  KVICK_TRY(const store::StoreAddress address, address_of(flags));
  return std::shared_ptr<engine::PrefixTier>(std::make_shared<store::RedisTier>(
      store::RedisTierOptions{.address = address, .report = std::move(report)}));
}

}  // namespace kvick::cli
