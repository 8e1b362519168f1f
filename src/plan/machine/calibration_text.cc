#include <ctime>
#include <fmt/format.h>

#include "plan/machine/calibration.h"

namespace kvick::plan {
namespace {

constexpr double kIdleShare = 0.05;     // what an idle system uses itself
constexpr double kSteadySpread = 0.25;  // what caches and clock rates cause on an idle machine

std::string minute_text(int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm local{};
  localtime_r(&time, &local);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", local.tm_year + 1900, local.tm_mon + 1,
                     local.tm_mday, local.tm_hour, local.tm_min);
}

}  // namespace

std::string moment_text(const Moment& moment) {
  std::string text = "measured " + minute_text(moment.at);
  if (moment.others && *moment.others < kIdleShare) text += " on an idle machine";
  if (moment.others && *moment.others >= kIdleShare)
    text += fmt::format(" while other programs used {:.0f} % of the cores", 100 * *moment.others);
  if (moment.spread > kSteadySpread)
    text += fmt::format(", rounds up to {:.0f} % apart", 100 * moment.spread);
  if (moment.raised_at != 0)
    text += fmt::format(", raised {} by a faster run", minute_text(moment.raised_at));
  if (moment.others.value_or(0) > kBusyShare)
    text += ": run `kvick bench --calibrate` when the machine is idle";
  return text;
}

}  // namespace kvick::plan
