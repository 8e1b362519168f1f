#include "server/ops/kv_event_publisher.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <deque>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <zmq.h>

#include "base/thread.h"
#include "server/ops/kv_event_batch.h"

namespace kvick::server {
namespace {

// Limit in bytes of a received frame, which is a topic or a number of 8 bytes. libzmq allocates the
// size that a frame's head announces before the frame has arrived.
constexpr int64_t kMostAsked = 4096;

// Parts of a message that are kept: one more than a question has, to detect longer messages.
constexpr size_t kMostParts = 4;

constexpr std::chrono::milliseconds kNoMemoryPause{10};

struct CloseContext {
  void operator()(void* context) const { zmq_ctx_term(context); }
};
struct CloseSocket {
  void operator()(void* socket) const { zmq_close(socket); }
};
using Context = std::unique_ptr<void, CloseContext>;
using Socket = std::unique_ptr<void, CloseSocket>;

// The file that wakes the publisher's thread.
class WakeFile {
 public:
  WakeFile() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  WakeFile(WakeFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  WakeFile& operator=(WakeFile&&) = delete;
  ~WakeFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }  // negative if the system gave none

 private:
  int fd_;
};

using Number = std::array<uint8_t, 8>;

Number number_bytes(uint64_t number) {
  Number bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(number >> (56 - 8 * i));
  return bytes;
}

base::Result<Socket> listen(void* context, int type, int most_unread, const std::string& option,
                            const std::string& endpoint) {
  Socket socket(zmq_socket(context, type));
  if (socket == nullptr) return base::fail("{}: {}", option, zmq_strerror(zmq_errno()));
  const int linger = 0, mandatory = 1;
  zmq_setsockopt(socket.get(), ZMQ_LINGER, &linger, sizeof linger);
  zmq_setsockopt(socket.get(), ZMQ_SNDHWM, &most_unread, sizeof most_unread);
  zmq_setsockopt(socket.get(), ZMQ_MAXMSGSIZE, &kMostAsked, sizeof kMostAsked);
  // Without it, a ROUTER drops messages to a client that is gone or reads too slowly and reports
  // success. The client would then not notice that batches are missing from its answer.
  if (type == ZMQ_ROUTER)
    zmq_setsockopt(socket.get(), ZMQ_ROUTER_MANDATORY, &mandatory, sizeof mandatory);
  if (zmq_bind(socket.get(), endpoint.c_str()) != 0)
    return base::fail("{} {}: {}; give it as tcp://*:5557", option, endpoint,
                      zmq_strerror(zmq_errno()));
  return socket;
}

std::string bound_endpoint(void* socket) {
  if (socket == nullptr) return "";
  std::array<char, 256> text{};
  size_t bytes = text.size();
  zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, text.data(), &bytes);
  return text.data();
}

// Sends all parts of a message or nothing. Returns whether there was room. more: more parts follow.
bool send(void* socket, std::span<const std::span<const uint8_t>> parts, bool more) {
  for (size_t i = 0; i < parts.size(); ++i) {
    const int flag = more || i + 1 < parts.size() ? ZMQ_SNDMORE : 0;
    if (zmq_send(socket, parts[i].data(), parts[i].size(), flag | ZMQ_DONTWAIT) < 0) return false;
  }
  return true;
}

// A batch whose bytes exist once, however many queues of subscribers hold them.
class Batch {
 public:
  explicit Batch(std::span<const uint8_t> bytes) {
    if (zmq_msg_init_size(&message_, bytes.size()) != 0) throw std::bad_alloc();
    std::copy(bytes.begin(), bytes.end(), static_cast<uint8_t*>(zmq_msg_data(&message_)));
  }
  ~Batch() { zmq_msg_close(&message_); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  size_t size() const { return zmq_msg_size(&message_); }
  // Sends the batch as the last part of a message.
  bool send(void* socket) {
    zmq_msg_t same;
    zmq_msg_init(&same);
    zmq_msg_copy(&same, &message_);  // adds a reference to the bytes
    if (zmq_msg_send(&same, socket, ZMQ_DONTWAIT) >= 0) return true;
    zmq_msg_close(&same);
    return false;
  }

 private:
  zmq_msg_t message_;
};

// Returns the parts of the next message, at most kMostParts; empty if there is no message.
std::vector<std::vector<uint8_t>> receive(void* socket) {
  std::vector<std::vector<uint8_t>> parts;
  int more = 1;
  for (size_t bytes = sizeof more; more != 0; zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &bytes)) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    if (zmq_msg_recv(&part, socket, ZMQ_DONTWAIT) < 0) return {};
    const auto* data = static_cast<const uint8_t*>(zmq_msg_data(&part));
    if (parts.size() < kMostParts) parts.emplace_back(data, data + zmq_msg_size(&part));
    zmq_msg_close(&part);
  }
  return parts;
}

class Publisher final : public KvEventPublisher {
 public:
  Publisher(const KvEventOptions& options, std::shared_ptr<engine::PrefixEvents> events,
            Context context, Socket out, Socket replay, WakeFile wake_file)
      : options_(options),
        events_(std::move(events)),
        context_(std::move(context)),
        out_(std::move(out)),
        replay_(std::move(replay)),
        endpoint_(bound_endpoint(out_.get())),
        replay_endpoint_(bound_endpoint(replay_.get())),
        wake_(std::move(wake_file)) {
    thread_ = base::start_thread("events of the cache", [this] { work(); });
    events_->on_some([this] { wake(); });
  }
  ~Publisher() override {
    events_->on_some(nullptr);
    stopping_ = true;
    wake();
    thread_.join();
  }
  std::string endpoint() const override { return endpoint_; }
  std::string replay_endpoint() const override { return replay_endpoint_; }

 private:
  // Never blocks: a write to a full counter fails, but then the thread is awake already.
  void wake() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.fd(), &one, sizeof one);
  }

  void work() {
    std::array<zmq_pollitem_t, 2> items = {
        {{nullptr, wake_.fd(), ZMQ_POLLIN, 0}, {replay_.get(), 0, ZMQ_POLLIN, 0}}};
    while (!stopping_) {
      if (zmq_poll(items.data(), replay_ != nullptr ? 2 : 1, -1) < 0 && zmq_errno() != EINTR)
        return;
      if ((items[0].revents & ZMQ_POLLIN) != 0) publish();
      if ((items[1].revents & ZMQ_POLLIN) != 0) answer();
      items[0].revents = items[1].revents = 0;
    }
  }

  void publish() {
    uint64_t wakes = 0;
    [[maybe_unused]] const ssize_t read = ::read(wake_.fd(), &wakes, sizeof wakes);
    std::vector<engine::PrefixEvent> events;
    try {
      events = events_->take();
    } catch (const std::bad_alloc&) {  // take() has woken this thread again
      std::this_thread::sleep_for(kNoMemoryPause);
      return;
    }
    if (events.empty()) return;
    try {
      const double now =
          std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
              .count();
      kept_.emplace_back(kv_event_batch(events, now));
      kept_bytes_ += kept_.back().size();
      const Number number = number_bytes(next_++);
      const auto* topic = reinterpret_cast<const uint8_t*>(options_.topic.data());
      const std::array<std::span<const uint8_t>, 2> head = {std::span(topic, options_.topic.size()),
                                                            number};
      // Subscribers that are too slow miss the batch.
      if (send(out_.get(), head, true)) kept_.back().send(out_.get());
      while (kept_.size() > options_.most_kept || kept_bytes_ > options_.most_kept_bytes) {
        kept_bytes_ -= kept_.front().size();
        kept_.pop_front();
      }
    } catch (const std::bad_alloc&) {
      ++next_;  // subscribers see a gap
      kept_.clear();
      kept_bytes_ = 0;
    }
  }

  // Answers [client, empty, number], the form of a REQ socket; ignores other messages. Ends the
  // answer early, without the number -1, if the client is gone or reads too slowly.
  void answer() {
    try {
      const auto asked = receive(replay_.get());
      if (asked.size() != 3 || !asked[1].empty() || asked[2].size() != sizeof(Number)) return;
      uint64_t from = 0;
      for (const uint8_t byte : asked[2]) from = from << 8 | byte;
      const uint64_t first = next_ - kept_.size();
      for (uint64_t at = std::max(from, first); at < next_; ++at)
        if (!reply(asked[0], at, kept_[at - first])) return;
      reply(asked[0], UINT64_MAX, end_);
    } catch (const std::bad_alloc&) {  // the client gets no answer and asks again
    }
  }

  bool reply(const std::vector<uint8_t>& client, uint64_t number, Batch& batch) const {
    const Number bytes = number_bytes(number);
    const std::array<std::span<const uint8_t>, 3> head = {client, std::span<const uint8_t>(),
                                                          bytes};
    return send(replay_.get(), head, true) && batch.send(replay_.get());
  }

  const KvEventOptions options_;
  const std::shared_ptr<engine::PrefixEvents> events_;
  Context context_;  // destroyed after its sockets
  Socket out_, replay_;
  const std::string endpoint_, replay_endpoint_;
  const WakeFile wake_;
  std::deque<Batch> kept_;  // the last batches, up to number next_ - 1
  size_t kept_bytes_ = 0;   // of these batches
  Batch end_{{}};           // the empty batch that ends an answer
  uint64_t next_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace

base::Result<std::unique_ptr<KvEventPublisher>> KvEventPublisher::open(
    const KvEventOptions& options, std::shared_ptr<engine::PrefixEvents> events) {
  Context context(zmq_ctx_new());
  if (context == nullptr) return base::fail("--kv-events: {}", zmq_strerror(zmq_errno()));
  const int unread = options.most_unread;
  KVICK_TRY(Socket out, listen(context.get(), ZMQ_PUB, unread, "--kv-events", options.endpoint));
  Socket replay;
  if (!options.replay.empty()) {
    KVICK_TRY(replay,
              listen(context.get(), ZMQ_ROUTER, unread, "--kv-events-replay", options.replay));
  }
  WakeFile wake;
  if (wake.fd() < 0) return base::fail("--kv-events: the system gives no eventfd");
  return std::unique_ptr<KvEventPublisher>(
      std::make_unique<Publisher>(options, std::move(events), std::move(context), std::move(out),
                                  std::move(replay), std::move(wake)));
}

}  // namespace kvick::server
