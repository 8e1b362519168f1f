#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace kvick::cli {

// SHA-256 of a stream of bytes.
class Sha256 {
 public:
  Sha256();
  void add(std::span<const std::byte> bytes);
  // Returns the hash of all bytes so far as 64 lower-case hexadecimal digits. More bytes may
  // follow.
  std::string hex() const;

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string sha256_of(std::string_view text);
// Reads the whole file. Throws Failure if it cannot be read.
std::string sha256_of_file(const std::filesystem::path& path);

// Returns whether the text is 64 hexadecimal digits, in either case.
bool is_sha256(std::string_view text);

}  // namespace kvick::cli
