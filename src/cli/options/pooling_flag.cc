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
      "which of a text's states its embedding is: the last token's, the mean of all, or the first "
      "token's (cls); auto: as the model's file says, else the last token's, or an encoder's mean");
}

}  // namespace kvick::cli
