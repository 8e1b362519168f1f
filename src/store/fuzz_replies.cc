// libFuzzer: parses arbitrary bytes as replies of a store, which arrive in pieces; the first byte
// is the size of a piece minus one. Each reply is parsed or is an error of one line. No reply is
// longer than the input.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/redis_client.h"

namespace {

namespace store = kvick::store;

class Answers final : public store::Wire {
 public:
  Answers(std::string_view bytes, size_t piece) : bytes_(bytes), piece_(piece) {}
  kvick::base::Status<> write(std::string_view, store::Until) override {
    return kvick::base::Done{};
  }
  kvick::base::Result<size_t> read(char* bytes, size_t most, store::Until) override {
    const size_t n = std::min({most, piece_, bytes_.size()});
    if (n == 0) return kvick::base::fail("it has closed the connection");
    std::copy_n(bytes_.begin(), n, bytes);
    bytes_.remove_prefix(n);
    return n;
  }

 private:
  std::string_view bytes_;
  size_t piece_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kMost = 512;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  store::RedisClient client(std::make_unique<Answers>(bytes, size_t{1} + data[0]));
  while (true) {
    if (!client.send({"GET", "key"}, {}).ok()) std::abort();
    const auto reply = client.receive(kMost, {});
    if (!reply.ok()) {
      if (reply.error().message.find('\n') != std::string::npos) std::abort();
      return 0;
    }
    if (reply->text.size() > size) std::abort();
  }
}
