#include "cli/options/pooling_flag.h"

namespace kvick::cli {

void add_pooling_flag(const Command& command, std::optional<engine::Pooling>& pooling) {
  using engine::Pooling;
  command.add_choice<std::optional<Pooling>>(
      "--pooling", pooling,
      {{"auto", std::nullopt},
       {"last", Pooling::kLast},
       {"mean", Pooling::kMean},
       {"cls", Pooling::kCls}},
      "how an embedding is made from the final states of a text's tokens: the last token's, the "
      "mean of all, or the first token's (cls); auto: as the model's file says, otherwise the mean "
      "for encoders and the last token's for other models");
}

}  // namespace kvick::cli
