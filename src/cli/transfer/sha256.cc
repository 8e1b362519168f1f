#include "cli/transfer/sha256.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <openssl/evp.h>
#include <vector>

#include "cli/transfer/failure.h"

namespace kvick::cli {
namespace {

void require(int ok) {
  if (ok != 1) throw failure("the system's OpenSSL offers no SHA-256");
}

}  // namespace

void Sha256::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  if (!context_) throw std::bad_alloc();
  require(EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr));
}

void Sha256::add(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()));
}

std::string Sha256::hex() const {
  Sha256 copy;
  require(EVP_MD_CTX_copy_ex(copy.context_.get(), context_.get()));
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(copy.context_.get(), digest.data(), nullptr));
  std::string out;
  for (unsigned char byte : digest) out += fmt::format("{:02x}", byte);
  return out;
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.add(std::as_bytes(std::span(text)));
  return hash.hex();
}

std::string sha256_of_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> buffer(1 << 20);
  Sha256 hash;
  while (in) {
    in.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.add(std::as_bytes(std::span(buffer.data(), static_cast<size_t>(in.gcount()))));
  }
  if (!in.eof()) throw failure("cannot read {}: {}", path.string(), std::strerror(errno));
  return hash.hex();
}

bool is_sha256(std::string_view text) {
  return text.size() == 64 &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isxdigit(c); });
}

}  // namespace kvick::cli
