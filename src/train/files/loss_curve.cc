#include "train/files/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <iomanip>

namespace kvick::train {
namespace {

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  std::ostringstream out;
  out << std::setprecision(8) << value;
  return out.str();
}

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

// Sizes in pixels.
constexpr double kWidth = 720, kHeight = 420, kLeft = 60, kRight = 20, kTop = 50, kBottom = 45;

struct Axes {
  double steps = 1, least = 0, most = 1;

  explicit Axes(const std::vector<LogPoint>& log) {
    least = INFINITY, most = -INFINITY;
    for (const LogPoint& point : log) {
      steps = std::max(steps, static_cast<double>(point.step));
      for (const double loss : {point.loss, point.held_out})
        if (std::isfinite(loss)) least = std::min(least, loss), most = std::max(most, loss);
    }
    if (!(least < most)) least = 0, most = std::isfinite(most) && most > 0 ? most : 1;
  }
  double x(double step) const { return kLeft + (kWidth - kLeft - kRight) * step / steps; }
  double y(double loss) const {
    return kTop + (kHeight - kTop - kBottom) * (most - loss) / (most - least);
  }
};

std::string line(const Axes& axes, const std::vector<LogPoint>& log, double LogPoint::*field,
                 const char* colour) {
  std::string points;
  for (const LogPoint& point : log)
    if (std::isfinite(point.*field))
      points += fixed(axes.x(static_cast<double>(point.step)), 1) + "," +
                fixed(axes.y(point.*field), 1) + " ";
  return text_of("<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"", colour, "\" points=\"",
                 points, "\"/>\n");
}

std::string label(double x, double y, const char* anchor, const std::string& text) {
  return text_of("<text x=\"", x, "\" y=\"", y, "\" text-anchor=\"", anchor, "\">", text,
                 "</text>\n");
}

std::string grid(const Axes& axes) {
  constexpr int kLines = 5;
  std::string out;
  for (int i = 0; i <= kLines; ++i) {
    const double loss = axes.least + (axes.most - axes.least) * i / kLines, y = axes.y(loss);
    const double step = std::round(axes.steps * i / kLines);
    out += text_of("<line stroke=\"#ddd\" x1=\"", kLeft, "\" x2=\"", kWidth - kRight, "\" y1=\"", y,
                   "\" y2=\"", y, "\"/>\n");
    out += label(kLeft - 6, y + 4, "end", fixed(loss, 2));
    out += label(axes.x(step), kHeight - kBottom + 18, "middle", fixed(step, 0));
  }
  return out + label(kWidth / 2, kHeight - 8, "middle", "steps");
}

}  // namespace

std::string log_json(const std::vector<LogPoint>& log) {
  std::string out = "[";
  for (const LogPoint& point : log)
    out += text_of(out.size() > 1 ? ",\n " : "", "{\"step\": ", point.step,
                   ", \"loss\": ", json_number(point.loss),
                   ", \"held_out\": ", json_number(point.held_out),
                   ", \"accuracy\": ", json_number(point.accuracy),
                   ", \"seconds\": ", json_number(point.seconds), "}");
  return out + "]\n";
}

std::string summary_json(const Checkpoint& c) {
  const ModelSettings& m = c.settings.model;
  const RunSettings& run = c.settings.run;
  double accuracy = NAN;
  for (const LogPoint& point : c.log)
    if (std::isfinite(point.accuracy)) accuracy = point.accuracy;
  const bool is_made_up = run.task == "mqar" || run.task == "copy";
  std::string out =
      text_of("{\"arch\": \"", m.arch, "\", \"task\": \"", run.task, "\", \"update\": ");
  out += m.has_memory() ? text_of("\"", m.update, "\", \"address\": \"", m.address,
                                  "\", \"read\": \"", m.read, "\", \"slots\": ", m.slots)
                        : "null, \"slots\": null";
  if (is_made_up) out += text_of(", \"pairs\": ", run.pairs, ", \"symbols\": ", run.symbols);
  const std::pair<const char*, uint64_t> numbers[] = {{"dim", m.dim},
                                                      {"layers", m.layers},
                                                      {"kv_heads", m.kv_heads},
                                                      {"head_dim", m.head_dim},
                                                      {"ctx", m.ctx},
                                                      {"batch", run.batch},
                                                      {"parameters", c.values.size()},
                                                      {"steps", c.step}};
  for (const auto& [name, number] : numbers) out += text_of(", \"", name, "\": ", number);
  return out + text_of(", \"seconds\": ", json_number(c.seconds),
                       ", \"best_held_out\": ", json_number(c.best_held_out),
                       ", \"accuracy\": ", json_number(accuracy), "}\n");
}

std::string loss_svg(const std::vector<LogPoint>& log, const std::string& title) {
  const Axes axes(log);
  std::string out =
      text_of("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", kWidth, "\" height=\"", kHeight,
              "\" font-family=\"sans-serif\" ",
              "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" ", "fill=\"white\"/>\n");
  out += label(kLeft, 20, "start", title);
  out += label(kLeft, 38, "start",
               "loss in nats per token: <tspan fill=\"#4269d0\">training</tspan>, "
               "<tspan fill=\"#d1495b\">held out</tspan>");
  out += grid(axes) + line(axes, log, &LogPoint::loss, "#4269d0") +
         line(axes, log, &LogPoint::held_out, "#d1495b");
  return out + "</svg>\n";
}

}  // namespace kvick::train
