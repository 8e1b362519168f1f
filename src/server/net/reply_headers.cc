#include "server/net/reply_headers.h"

namespace kvick::server {
namespace {

void append(const Headers& more, Headers& headers) {
  headers.insert(headers.end(), more.begin(), more.end());
}

class WithHeaders final : public Reply {
 public:
  WithHeaders(std::shared_ptr<Reply> reply, Headers headers)
      : reply_(std::move(reply)), headers_(std::move(headers)) {}
  void send(HttpResponse response) override {
    append(headers_, response.headers);
    reply_->send(std::move(response));
  }
  void begin_events(StreamHead head) override {
    append(headers_, head.headers);
    reply_->begin_events(std::move(head));
  }
  void event(std::string_view bytes) override { reply_->event(bytes); }
  void end_events() override { reply_->end_events(); }
  void on_gone(std::function<void()> gone) override { reply_->on_gone(std::move(gone)); }
  std::shared_ptr<RequestRecord> record() const override { return reply_->record(); }

 private:
  std::shared_ptr<Reply> reply_;
  Headers headers_;
};

}  // namespace

std::shared_ptr<Reply> with_headers(std::shared_ptr<Reply> reply, Headers headers) {
  if (headers.empty()) return reply;
  return std::make_shared<WithHeaders>(std::move(reply), std::move(headers));
}

}  // namespace kvick::server
