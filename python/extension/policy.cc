#include "extension/policy.h"

#include <fmt/format.h>
#include <map>
#include <memory>
#include <mutex>

#include "extension/model.h"

#include "kv/registry/policies.h"
#include "kv/select/row_arithmetic.h"
#include "kv/select/select_store.h"
#include "kv/strategy/options.h"

namespace kvick::python {
namespace {

constexpr kv::Option kShared[] = {kv::budget_option(), kv::sinks_option(),
                                  kv::recent_option(), kv::dense_layers_option("0"),
                                  kv::least_option(),  kv::loss_option()};

thread_local bool choosing = false;

// A policy and the data that its row in kvick's table points to. It lives as long as the program.
struct Added {
  NewPolicy policy;
  std::vector<kv::Option> options;
};

struct All {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Added>, std::less<>> by_name;
};
// Never destroyed: it holds Python functions, and Python has ended when static objects are
// destroyed.
All& all() {
  static All& added = *new All;
  return added;
}

// Converts queries, keys and values to floats, and selects the rows that the function scores
// highest.
class ScoredRows final : public kv::Selector {
 public:
  ScoredRows(const kv::Setup& setup, const kv::Selection& selection, bool values, ScoreRows score)
      : Selector(selection),
        kernels_(kv::kernels_of(setup)),
        shape_(setup.shape),
        values_(values),
        score_(std::move(score)) {}

  bool reads_rows() const override { return true; }

  void choose(const kv::SelectRequest& question, base::Arena& scratch,
              kv::SelectedRows& choice) const override {
    const kv::TopRows& top_rows = question.top_rows;
    const uint32_t rows = top_rows.last - top_rows.first;
    const std::span<float> scores = scratch.make<float>(rows);
    struct Inside {
      Inside() { choosing = true; }
      ~Inside() { choosing = false; }
    };
    {
      const Inside inside;
      score_(candidates(question, scratch), scores);
    }
    const auto taken = kv::highest(kernels_, scores, top_rows.take, scratch);
    const std::span<uint32_t> chosen = scratch.make<uint32_t>(taken.size());
    for (size_t i = 0; i < chosen.size(); ++i) chosen[i] = top_rows.first + taken[i];
    choice.rows = chosen;
  }

  uint64_t choice_bytes(const kv::TopRows& top_rows, uint32_t) const override {
    const uint64_t row = shape_.row_bytes(false) + (values_ ? shape_.row_bytes(true) : 0);
    return (top_rows.last - top_rows.first) * row;
  }

 private:
  Candidates candidates(const kv::SelectRequest& question, base::Arena& scratch) const {
    const uint32_t dims = shape_.head_dim, value_dims = shape_.dim(true);
    const uint32_t first = question.top_rows.first, last = question.top_rows.last;
    const std::span<float> queries = scratch.make<float>(question.queries.size() * dims);
    for (size_t i = 0; i < question.queries.size(); ++i)
      std::copy_n(question.queries[i], dims, queries.data() + i * dims);
    const std::span<float> keys = scratch.make<float>(size_t{last - first} * dims);
    const std::span<float> values =
        scratch.make<float>(values_ ? size_t{last - first} * value_dims : 0);
    kv::for_each_row(question.rows.segment, first, last,
                     [&](uint32_t row, const std::byte* k, const std::byte* v) {
                       const std::span<float> key = keys.subspan(size_t{row - first} * dims, dims);
                       kv::read_key(question.rows.segment, k, key);
                       kv::transform(kernels_, shape_.hadamard_blocks().k, key);
                       if (!values_) return;
                       const std::span<float> value =
                           values.subspan(size_t{row - first} * value_dims, value_dims);
                       kernels::to_f32(question.rows.segment.v_type, v, value.size(), value.data());
                       for (float& x : value) x *= question.rows.segment.v_scale;
                       kv::transform(kernels_, shape_.hadamard_blocks().v, value);
                     });
    return {.layer = question.rows.layer,
            .head = question.rows.head,
            .first = first,
            .take = question.top_rows.take,
            .dims = dims,
            .value_dims = value_dims,
            .queries = queries,
            .keys = keys,
            .values = values};
  }

  const kernels::Table& kernels_;
  kv::Shape shape_;
  bool values_;
  ScoreRows score_;
};

base::Result<std::unique_ptr<const kv::Selector>> selector_of(const kv::Setup& setup) {
  const kv::Spec& spec = setup.select.spec;
  KVICK_TRY(kv::Selection selection,
            kv::read_selection(spec, std::span(kShared).first<kv::kSelectionOptions>()));
  KVICK_TRY_VOID(kv::read_loss(spec, selection));
  NewPolicy policy;
  {
    All& added = all();
    const std::lock_guard lock(added.mutex);
    policy = added.by_name.find(spec.name)->second->policy;
  }
  for (auto& [name, value] : policy.options)
    value = kv::value_of(spec, {.name = name, .summary = {}, .fallback = value});
  return std::unique_ptr<const kv::Selector>(
      std::make_unique<ScoredRows>(setup, selection, policy.values, policy.make(policy.options)));
}

std::vector<kv::Option> options_of(const NewPolicy& policy) {
  std::vector<kv::Option> options(std::begin(kShared), std::end(kShared));
  for (const auto& [name, fallback] : policy.options) {
    value_or_throw(kv::check_name("option", name));
    for (const kv::Option& other : options)
      if (other.name == name)
        throw Error(fmt::format("policy {} has the option {} already: give yours another name",
                                policy.name, name));
    options.push_back({.name = name, .summary = "an option of this policy", .fallback = fallback});
  }
  return options;
}

bool same_options(const OptionTexts& a, const OptionTexts& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

bool choosing_rows() { return choosing; }

void add_policy(NewPolicy policy) {
  All& added = all();
  const std::lock_guard lock(added.mutex);
  if (const auto found = added.by_name.find(policy.name); found != added.by_name.end()) {
    NewPolicy& before = found->second->policy;
    if (!same_options(before.options, policy.options) || before.summary != policy.summary)
      throw Error(fmt::format(
          "policy {} was added before with other options or another summary: choose another name",
          policy.name));
    before.make = std::move(policy.make);
    before.values = policy.values;
    return;
  }
  auto one = std::make_unique<Added>(Added{std::move(policy), {}});
  one->options = options_of(one->policy);
  const kv::Policy row[] = {{.name = one->policy.name,
                             .summary = one->policy.summary,
                             .options = one->options,
                             .change_traits = kv::selecting_traits,
                             .make = kv::make_selecting<selector_of>,
                             .cost = kv::cost_selecting<selector_of>}};
  value_or_throw(kv::add_policies(row));
  added.by_name.emplace(one->policy.name, std::move(one));
}

}  // namespace kvick::python
