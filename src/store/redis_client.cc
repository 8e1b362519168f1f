#include "store/redis_client.h"

#include <hiredis/read.h>

namespace kvick::store {
namespace {

using base::Done;
using base::Result;
using base::Status;

constexpr size_t kBufferBytes = size_t{256} << 10;
constexpr size_t kMostShortReply = 4096;

// hiredis takes a null reply as "out of memory", which ends the connection. An exception must not
// pass through hiredis, which is C.
template <typename Fill>
void* make_reply(Reply::Type type, const Fill& fill) noexcept {
  try {
    auto reply = std::make_unique<Reply>();
    reply->type = type;
    fill(*reply);
    return reply.release();
  } catch (...) {
    return nullptr;
  }
}

void* make_text(const redisReadTask* task, char* text, size_t size) {
  const auto type = task->type == REDIS_REPLY_ERROR ? Reply::Type::kError : Reply::Type::kText;
  return make_reply(type, [&](Reply& reply) { reply.text.assign(text, size); });
}
void* make_number(const redisReadTask*, long long number) {
  return make_reply(Reply::Type::kNumber, [&](Reply& reply) { reply.number = number; });
}
void* make_nothing(const redisReadTask*) {
  return make_reply(Reply::Type::kNothing, [](Reply&) {});
}
void free_reply(void* reply) { delete static_cast<Reply*>(reply); }

// Later versions of hiredis also parse doubles and booleans. Without a function for them hiredis
// returns a small number instead of a pointer. No command here is answered with either type.
template <typename Functions>
void refuse_later_types(Functions& all) {
  if constexpr (requires { all.createDouble; })
    all.createDouble = [](const redisReadTask*, double, char*, size_t) -> void* { return nullptr; };
  if constexpr (requires { all.createBool; })
    all.createBool = [](const redisReadTask*, int) -> void* { return nullptr; };
}

redisReplyObjectFunctions functions() {
  redisReplyObjectFunctions all = {};
  all.createString = make_text;
  // No command here is answered with a list, so lists are refused: a broken server could claim any
  // length. The type of the length differs between versions of hiredis.
  all.createArray = [](const redisReadTask*, auto) -> void* { return nullptr; };
  all.createInteger = make_number;
  all.createNil = make_nothing;
  all.freeObject = free_reply;
  refuse_later_types(all);
  return all;
}

std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  return text.substr(0, 200);
}

}  // namespace

RedisClient::RedisClient(std::unique_ptr<Wire> wire)
    : wire_(std::move(wire)),
      reader_(nullptr, redisReaderFree),
      buffer_(std::make_unique<char[]>(kBufferBytes)) {
  static redisReplyObjectFunctions kFunctions = functions();  // hiredis takes no const pointer
  reader_.reset(redisReaderCreateWithFunctions(&kFunctions));
  if (reader_ == nullptr) throw std::bad_alloc();
}

Result<std::unique_ptr<RedisClient>> RedisClient::connect(const StoreAddress& address,
                                                          base::HostLookup& lookup, Until until) {
  KVICK_TRY(std::unique_ptr<Wire> wire, Wire::connect(address, lookup, until));
  std::unique_ptr<RedisClient> client(new RedisClient(std::move(wire)));
  if (!address.user.empty())
    KVICK_TRY_VOID(client->must_be_ok({"AUTH", address.user, address.password}, until));
  else if (!address.password.empty())
    KVICK_TRY_VOID(client->must_be_ok({"AUTH", address.password}, until));
  if (address.database != 0)
    KVICK_TRY_VOID(client->must_be_ok({"SELECT", std::to_string(address.database)}, until));
  KVICK_TRY_VOID(client->must_be_ok({"PING"}, until));
  return client;
}

Status<> RedisClient::must_be_ok(std::initializer_list<std::string_view> command, Until until) {
  KVICK_TRY_VOID(send(command, until));
  KVICK_TRY(const Reply reply, receive(kMostShortReply, until));
  if (reply.type == Reply::Type::kText) return Done{};
  return base::fail("the answer to {} is: {}", *command.begin(), one_line(reply.text));
}

// Writes large parts, which are rows, straight to the wire, without a copy.
Status<> RedisClient::send(std::initializer_list<std::string_view> command, Until until) {
  std::string head = fmt::format("*{}\r\n", command.size());
  for (const std::string_view part : command) {
    head += fmt::format("${}\r\n", part.size());
    if (part.size() > kBufferBytes) {
      KVICK_TRY_VOID(wire_->write(head, until));
      KVICK_TRY_VOID(wire_->write(part, until));
      head.clear();
    } else {
      head += part;
    }
    head += "\r\n";
  }
  return wire_->write(head, until);
}

Result<Reply> RedisClient::receive(size_t most_bytes, Until until) {
  // Bytes already read belong to this reply or a later one; they count towards its limit.
  const size_t before = reader_->len - reader_->pos;
  for (size_t taken = before;;) {
    void* made = nullptr;
    if (redisReaderGetReply(reader_.get(), &made) != REDIS_OK)
      return base::fail("it does not speak Redis' protocol: {}", one_line(reader_->errstr));
    const std::unique_ptr<Reply> reply(static_cast<Reply*>(made));
    if (reply != nullptr) return std::move(*reply);
    if (taken > most_bytes + kBufferBytes)
      return base::fail("its reply is longer than the {} bytes that were asked for", most_bytes);
    KVICK_TRY(const size_t n, wire_->read(buffer_.get(), kBufferBytes, until));
    if (redisReaderFeed(reader_.get(), buffer_.get(), n) != REDIS_OK) throw std::bad_alloc();
    taken += n;
  }
}

}  // namespace kvick::store
