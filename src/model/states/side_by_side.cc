#include <algorithm>

#include "model/states/state_block.h"

namespace kvick::model {
namespace {

// Both blocks read the same norm of the residual stream. Their sum is added to the stream.
class SideBySide final : public Block {
 public:
  SideBySide(std::unique_ptr<Block> first, std::unique_ptr<Block> second)
      : first_(std::move(first)), second_(std::move(second)) {}

  Rest run(const Pass& pass, Rest rest) const override {
    const size_t dim = pass.config.dim;
    const Rest first = first_->run(pass, rest);
    float* const sum = pass.workspace.floats(Workspace::kLaurel, pass.tokens * dim);
    std::copy_n(first.y, pass.tokens * dim, sum);
    const Rest second = second_->run(pass, {});
    pass.workspace.for_tokens(pass.tokens, dim, [&](uint32_t t) {
      pass.workspace.kernels.add(sum + t * dim, second.y + t * dim, pass.config.dim);
    });
    return {sum};
  }

 private:
  std::unique_ptr<Block> first_, second_;
};

}  // namespace

std::unique_ptr<Block> side_by_side(std::unique_ptr<Block> first, std::unique_ptr<Block> second) {
  return std::make_unique<SideBySide>(std::move(first), std::move(second));
}

}  // namespace kvick::model
