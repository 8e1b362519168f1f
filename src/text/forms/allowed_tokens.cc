#include "text/forms/allowed_tokens.h"

#include <cmath>

#include "base/check.h"

namespace kvick::text {
namespace {

class AllowedTokens final : public Constraint {
 public:
  // allowed: [vocab].
  explicit AllowedTokens(std::shared_ptr<const std::vector<bool>> allowed)
      : allowed_(std::move(allowed)) {}
  std::unique_ptr<Constraint> clone() const override {
    return std::make_unique<AllowedTokens>(allowed_);
  }
  void mask(std::span<float> logits) override {
    KVICK_CHECK_EQ(logits.size(), allowed_->size());
    for (size_t i = 0; i < logits.size(); ++i)
      if (!(*allowed_)[i]) logits[i] = -INFINITY;
  }
  void accept(int32_t /*token*/) override {}
  bool complete() const override { return true; }

 private:
  std::shared_ptr<const std::vector<bool>> allowed_;  // shared by the clones
};

}  // namespace

std::shared_ptr<const Constraint> allowed_tokens(const std::vector<int32_t>& tokens, size_t vocab) {
  KVICK_CHECK(!tokens.empty(), "no token is allowed of {}", vocab);
  std::vector<bool> allowed(vocab);
  for (const int32_t token : tokens) allowed.at(static_cast<size_t>(token)) = true;
  return std::make_shared<AllowedTokens>(
      std::make_shared<const std::vector<bool>>(std::move(allowed)));
}

}  // namespace kvick::text
