#include "server/responses/responses_format.h"

#include <algorithm>

#include "server/openai/kv_transfer.h"
#include "server/responses/responses_output.h"

namespace kvick::server {
namespace {

std::string number_of(const AnswerHead& head) { return fmt::format("{:016x}", head.number); }

std::string_view kind_of(const Json& item) {
  const auto& type = item["type"].get_ref<const std::string&>();
  if (type == "function_call") return "fc";
  if (type == "function_call_output") return "fco";
  return type == "reasoning" ? "rs" : "msg";
}

class ResponsesFormat final : public AnswerFormat {
 public:
  ResponsesFormat(AnswerHead head, std::shared_ptr<const ResponsesFrame> frame)
      : head_(std::move(head)),
        frame_(std::move(frame)),
        output_(number_of(head_), frame_->namespaces) {}

  std::string_view prompt_field() const override { return "input"; }
  HttpResponse error(const ApiError& error) const override {
    ApiError here = error;
    if (here.param == "max_tokens") here.param = "max_output_tokens";
    return error_response(here);
  }

  // The single choice writes the whole answer, so the frame is empty.
  Frame frame(const AnswerEnd& end) override {
    end_ = end;
    return {};
  }
  std::string choice(const ChoiceText& all) override {
    add(all);
    return finished(end_).text;
  }

  std::string begin(uint32_t) override {
    std::string out;
    for (const char* const type : {"response.created", "response.in_progress"})
      out += output_.event(type, {{"response", object("in_progress")}});
    return out;
  }
  std::string piece(const ChoiceText& added) override { return add(added); }
  std::string end(const AnswerEnd& end) override {
    const bool failed = end.error.has_value();
    std::string out = output_.finish(failed || cut_);
    const Finished last = finished(end);
    return out + output_.event("response." + last.status, {{"response", last.response}});
  }

 private:
  struct Finished {
    std::string status;
    Json response;
    std::string text;  // `response` as text
  };

  std::string add(const ChoiceText& added) {
    cut_ = cut_ || added.finish_reason == "length";
    return output_.add(added);
  }

  Json object(std::string_view status) const {
    Json response = {{"id", response_id(number_of(head_))},
                     {"object", "response"},
                     {"created_at", head_.created},
                     {"status", status},
                     {"error", nullptr},
                     {"incomplete_details", nullptr},
                     {"model", head_.model},
                     {"output", output_.items()}};
    response.update(frame_->echo);
    response["usage"] = nullptr;
    return response;
  }

  Json usage(const TokenCounts& counts) const {
    const uint64_t thoughts =
        output_.thoughts().empty()
            ? 0
            : frame_->tokenizer->encode(output_.thoughts(), false, true).size();
    return {{"input_tokens", counts.prompt},
            {"input_tokens_details", {{"cached_tokens", counts.cached}, {"cache_write_tokens", 0}}},
            {"output_tokens", counts.answer},
            // Tokenizes the text of the thoughts again, which may give another number of tokens
            // than the model generated.
            {"output_tokens_details", {{"reasoning_tokens", std::min(thoughts, counts.answer)}}},
            {"total_tokens", counts.prompt + counts.answer}};
  }

  // Returns the final response and stores it unless it failed.
  Finished finished(const AnswerEnd& end) {
    output_.finish(cut_ || end.error.has_value());
    const char* const status = end.error ? "failed" : (cut_ ? "incomplete" : "completed");
    Json response = object(status);
    response["usage"] = usage(end.counts);
    if (end.error)
      response["error"] = {{"code", "server_error"}, {"message", end.error->message}};
    else if (cut_)
      response["incomplete_details"] = {{"reason", "max_output_tokens"}};
    if (end.given) response["kv_transfer_params"] = kv_transfer_json(*end.given);
    std::string text = to_text(response);
    if (!end.error) keep(text);
    return {status, std::move(response), std::move(text)};
  }

  void keep(const std::string& response) const {
    const OwnedResponses& to = frame_->responses;
    if (to.store == nullptr) return;
    Json items = frame_->items;
    size_t place = 0;
    for (Json& item : items) {
      if (!item.contains("id"))
        item["id"] = fmt::format("{}_{}_in{}", kind_of(item), number_of(head_), place);
      ++place;
    }
    to.store->put(response_id(number_of(head_)), to.owner, {response, to_text(items)});
  }

  AnswerHead head_;
  std::shared_ptr<const ResponsesFrame> frame_;
  ResponsesOutput output_;
  AnswerEnd end_;
  bool cut_ = false;  // the limit on tokens cut the answer off
};

}  // namespace

MakeFormat responses_format(ResponsesFrame frame) {
  return [shared = std::make_shared<const ResponsesFrame>(std::move(frame))](AnswerHead head) {
    return std::make_unique<ResponsesFormat>(std::move(head), shared);
  };
}

std::string response_id(std::string_view number) { return fmt::format("resp_{}", number); }

}  // namespace kvick::server
