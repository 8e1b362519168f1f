// A policy that is built outside of kvick and loaded with --kv-plugin. `products` reads the rows
// whose keys have the largest products with the queries, and multiplies all keys to find them.
// Other policies try to predict these rows without reading every key.

#include "kv/select/row_arithmetic.h"
#include "kv/select/selecting.h"
#include "kv/strategy/options.h"
#include "kv/strategy/plugin.h"

namespace {

namespace kv = kvick::kv;
namespace base = kvick::base;

constexpr kv::Option kOptions[] = {kv::budget_option(), kv::sinks_option(),
                                   kv::recent_option(), kv::dense_layers_option(),
                                   kv::least_option(),  kv::loss_option()};

class Products final : public kv::Selector {
 public:
  Products(const kv::Setup& setup, const kv::Selection& selection)
      : Selector(selection), kernels_(kv::kernels_of(setup)), shape_(setup.shape) {}

  bool reads_rows() const override { return true; }

  void choose(const kv::SelectRequest& question, base::Arena& scratch,
              kv::SelectedRows& choice) const override {
    const std::span<float> sum = scratch.make<float>(shape_.head_dim);
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (const float* query : question.queries) kernels_.add(sum.data(), query, sum.size());
    kv::transform(kernels_, shape_.hadamard_blocks().k, sum);  // in the same basis as the keys
    const std::span<float> scores = scratch.make<float>(question.count);
    kv::dot_keys(kernels_, question.rows.segment, sum, scores);

    const kv::TopRows& top_rows = question.top_rows;
    const auto taken =
        kv::highest(kernels_, scores.subspan(top_rows.first, top_rows.last - top_rows.first),
                    top_rows.take, scratch);
    const std::span<uint32_t> rows = scratch.make<uint32_t>(taken.size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = top_rows.first + taken[i];
    choice.rows = rows;
  }

  uint64_t choice_bytes(const kv::TopRows& top_rows, uint32_t) const override {
    return (top_rows.last - top_rows.first - top_rows.take) * shape_.row_bytes(false);
  }

 private:
  const kvick::kernels::Table& kernels_;
  kv::Shape shape_;
};

base::Result<std::unique_ptr<const kv::Selector>> selector_of(const kv::Setup& setup) {
  KVICK_TRY(
      kv::Selection selection,
      kv::read_selection(setup.select.spec, std::span(kOptions).first<kv::kSelectionOptions>()));
  KVICK_TRY_VOID(kv::read_loss(setup.select.spec, selection));
  return std::unique_ptr<const kv::Selector>(std::make_unique<Products>(setup, selection));
}

}  // namespace

extern "C" const kv::StrategyPlugin* kvick_strategies() {
  static const kv::Policy policies[] = {
      {.name = "products",
       .summary = "the rows whose keys have the largest products with the queries",
       .options = kOptions,
       .change_traits = kv::selecting_traits,
       .make = kv::make_selecting<selector_of>,
       .cost = kv::cost_selecting<selector_of>}};
  static const kv::StrategyPlugin plugin = {.policies = policies};
  return &plugin;
}
