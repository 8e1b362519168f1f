#include "cli/terminal/man_page.h"

#include <gtest/gtest.h>

namespace kvick::cli {
namespace {

const CommandText kProgram = {
    .name = "kvick",
    .summary = "run models",
    .footer = "see the guide",
    .options = {{.names = {"--json"}, .kind = ValueKind::kFlag, .help = "one object"}},
    .commands = {{.name = "run",
                  .summary = "answer a prompt\n.hidden requests are text",
                  .options = {{.argument = "text", .help = "the prompt", .several = true},
                              {.names = {"-n", "--max-tokens"},
                               .value = "N",
                               .help = "most tokens",
                               .fallback = "512"},
                              {.names = {"--kv"},
                               .value = "TEXT",
                               .help = "how rows are kept\n  bmc     grown, with a \\\n  paged",
                               .group = "Cache",
                               .required = true}}}}};
const std::vector<const CommandText*> kRun = {&kProgram, &kProgram.commands[0]};

bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

TEST(ManPage, IsNamedAfterTheCommandsThatLeadToIt) {
  EXPECT_EQ(page_name(kRun), "kvick-run");
  const std::string page = man_page(kRun, "kvick 0.1.0");
  EXPECT_TRUE(
      page.starts_with(".TH KVICK\\-RUN 1 \"\" \"kvick 0.1.0\" \"User Commands\"\n"
                       ".SH NAME\nkvick\\-run \\- answer a prompt\n"))
      << page;
}

TEST(ManPage, ShowsArgumentsInTheSynopsisAndDefaultsBehindTheText) {
  const std::string page = man_page(kRun, "");
  EXPECT_TRUE(has(page, ".B kvick run\n[\\fIOPTIONS\\fR] [\\fITEXT\\fR] ...\n")) << page;
  EXPECT_TRUE(has(page,
                  ".TP\n\\fB\\-n\\fR, \\fB\\-\\-max\\-tokens\\fR \\fIN\\fR\n"
                  "most tokens (default: 512)\n"));
}

TEST(ManPage, ListsTheValuesOfAnOptionUnderIt) {
  const std::string page = man_page(kRun, "");
  EXPECT_TRUE(has(page,
                  "how rows are kept (required)\n.RS\n.TP\n.B bmc\ngrown, with a \\e\n"
                  ".TP\npaged\n.RE\n"))
      << page;
  EXPECT_TRUE(has(page, ".SS Cache\n"));
}

TEST(ManPage, TextIsNeverARequest) {
  EXPECT_TRUE(has(man_page(kRun, ""), ".br\n\\&.hidden requests are text\n"));
}

TEST(ManPage, TheProgramsPageLeadsToThoseOfItsCommands) {
  const std::string page = man_page(std::span(kRun).first(1), "");
  EXPECT_TRUE(has(page, ".TP\n\\fBrun\\fR\nanswer a prompt (see \\fBkvick\\-run\\fR(1))\n"));
  EXPECT_TRUE(has(page, ".SH NOTES\nsee the guide\n"));
  EXPECT_TRUE(has(man_page(kRun, ""), ".SH SEE ALSO\n\\fBkvick\\fR(1)"));
}

}  // namespace
}  // namespace kvick::cli
