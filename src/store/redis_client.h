#pragma once
// One connection to Redis or Valkey. Commands are written, then their replies are read in order.
// hiredis only parses the replies. Sockets and TLS are in wire.h, because Debian's hiredis has no
// TLS and its time-outs are per system call. For one thread.

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "store/wire.h"

struct redisReader;

namespace kvick::store {

struct Reply {
  enum class Type { kText, kNumber, kNothing, kError };
  Type type = Type::kNothing;
  std::string text;  // of kText and kError
  int64_t number = 0;

  bool is_number(int64_t wanted) const { return type == Type::kNumber && number == wanted; }
};

class RedisClient {
 public:
  // Connects, authenticates and selects the database. lookup: as in Wire::connect. Error: one
  // sentence.
  static base::Result<std::unique_ptr<RedisClient>> connect(const StoreAddress& address,
                                                            base::HostLookup& lookup, Until until);
  // Uses an open wire, without authentication and without selecting a database.
  explicit RedisClient(std::unique_ptr<Wire> wire);
  // After an error of send() or receive() the connection cannot be used any more.
  base::Status<> send(std::initializer_list<std::string_view> command, Until until);
  // most_bytes: the limit on the size of the reply; a longer one is an error.
  base::Result<Reply> receive(size_t most_bytes, Until until);

 private:
  base::Status<> must_be_ok(std::initializer_list<std::string_view> command, Until until);

  std::unique_ptr<Wire> wire_;
  std::unique_ptr<redisReader, void (*)(redisReader*)> reader_;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace kvick::store
