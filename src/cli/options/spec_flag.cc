#include "cli/options/spec_flag.h"

#include <fmt/format.h>

#include "cli/models/models.h"

namespace kvick::cli {

void add_spec_flag(const Command& command, std::string& spec) {
  std::string ways;
  for (const engine::SpecWay& way : engine::spec_ways()) {
    ways += fmt::format("\n  {:<10} {}", way.name, way.summary);
    for (const engine::SpecOption& option : way.options)
      ways += fmt::format("\n    {}={}: {}", option.name,
                          option.fallback.empty() ? "..." : option.fallback, option.summary);
  }
  command
      .add_option("--spec", spec,
                  "draft tokens ahead and verify several in one forward pass; answers stay the "
                  "same: NAME[:key=value,...], by default none" +
                      ways)
      .in_group("Drafts");
}

base::Result<engine::SpecOptions> spec_of(const std::string& spec) {
  KVICK_TRY(engine::SpecOptions options, engine::parse_spec_options(spec));
  if (options.model.empty()) return options;
  KVICK_TRY(const std::filesystem::path path, find_model(options.model));
  options.model = path.string();
  return options;
}

}  // namespace kvick::cli
