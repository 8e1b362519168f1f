#include "train/files/checkpoint.h"

#include "train/files/binary_file.h"
#include "train/settings/shapes.h"

namespace kvick::train {
namespace {

constexpr std::string_view kMagic = "kvick checkpoint 1\n";

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& c) {
  BinaryWriter out(path);
  out.raw(kMagic.data(), kMagic.size());
  out.string(to_text(c.settings));
  out.number(c.data_tokens);
  out.number(c.step);
  out.number(c.seconds);
  out.number(c.sum_loss);
  out.number(c.sum_steps);
  out.list(c.log);
  out.number(c.vocabulary.pairs);
  out.string(c.vocabulary.bytes);
  out.number(c.best_held_out);
  for (const auto* part : {&c.values, &c.first, &c.second, &c.best}) out.list(*part);
  out.finish();
}

Checkpoint read_checkpoint(const std::string& path) {
  BinaryReader in(path, kMagic, "checkpoint of kvick train");
  Checkpoint c;
  c.settings = settings_from_text(in.string());
  complete(c.settings);
  c.data_tokens = in.number<uint64_t>();
  c.step = in.number<uint64_t>();
  c.seconds = in.number<double>();
  c.sum_loss = in.number<double>();
  c.sum_steps = in.number<uint64_t>();
  c.log = in.list<LogPoint>();
  c.vocabulary.pairs = in.number<uint64_t>();
  c.vocabulary.bytes = in.string();
  c.best_held_out = in.number<double>();
  for (auto* part : {&c.values, &c.first, &c.second, &c.best}) *part = in.list<float>();
  in.end();
  if (c.best.empty()) c.best = c.values;
  const uint64_t elements = elements_of(c.settings.model);
  for (const auto* part : {&c.values, &c.best})
    if (part->size() != elements)
      refuse(path, ": holds ", part->size(), " weights where its settings ask for ", elements);
  const uint64_t trained = c.step == 0 && c.first.empty() ? 0 : trained_part(c.settings).count;
  for (const auto* part : {&c.first, &c.second})
    if (part->size() != trained)
      refuse(path, ": holds ", part->size(), " moments where its settings ask for ", trained);
  return c;
}

}  // namespace kvick::train
