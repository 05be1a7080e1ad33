#include "campaign/plan/plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/ranges.h>

#include "analyze/allocate.h"
#include "campaign/plan/weights.h"
#include "core/error.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "design/extension.h"
#include "inject/draw/fault_plan.h"
#include "record/stratum_name.h"

namespace bitrift::campaign {
namespace {

using design::BaseCanary;
using record::TrialId;
using record::TrialKind;

// A change of so few weights is so small that a training must not suffer from it.
record::FaultModel jitter_model(const ckpt::Reader& base) {
  record::FaultModel model;
  const std::vector<WeightFolder> folders = weight_folders(base);
  if (!folders.empty() && !folders.front().name.empty()) model.tensors = {folders.front().name + "/**"};
  model.roles = {"weight"};
  model.bits = "0";
  model.count = 1;
  model.count = std::min(jittered_weights, inject::population_of(base, model).bits());
  return model;
}

std::vector<RunKey> run_each(const std::string& arm, TrialKind kind, const std::string& stratum, int count) {
  std::vector<RunKey> keys;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(count); ++i)
    keys.push_back({kind, {arm, stratum, i}});
  return keys;
}

// A bit that both populations hold, in words; "" where there is none.
std::string shared_bit(const inject::Population& first, const inject::Population& second) {
  for (const inject::Target& one : first.targets()) {
    for (const inject::Target& other : second.targets()) {
      if (one.path != other.path) continue;
      std::vector<unsigned> common;
      std::set_intersection(one.bits.begin(), one.bits.end(), other.bits.begin(), other.bits.end(),
                            std::back_inserter(common));
      if (!common.empty()) return fmt::format("bit {} of {}", common.front(), one.path);
    }
  }
  return "";
}

}  // namespace

Plan::Plan(const design::CampaignSpec& spec, const Bases& bases) : spec_(spec), bases_(bases) {
  spec.strata->check_bases(bases);
  add_cells();
  refuse_overlap();
  add_round(analyze::next_round(spec, strata(), {}, {}));
  find_weights();
  check_jitter();
}

void Plan::add_cells() {
  const design::Kind& kind = *spec_.strata;
  for (const record::Stratum& stratum : kind.strata()) {
    Cell cell{.stratum = stratum, .population = nullptr};
    try {
      cell.population = kind.population(cells_.size(), setting(spec_.arms.front()));
      cell.stratum.bits = cell.population->size();
      if (spec_.trials_per_stratum > cell.stratum.bits) {
        fail(ErrorCode::bad_input,
             "it holds {} {}, but trials_per_stratum needs {} draws without replacement", cell.stratum.bits,
             kind.members(), spec_.trials_per_stratum);
      }
    } catch (const Error& error) {
      fail(error.code(), "strata: {} (role {}, field {}): {}", stratum.name, stratum.role, stratum.field,
           error.what());
    }
    for (const std::string& path : cell.population->read_tensors())
      read_[bases_.front().find(path)->role].insert(path);
    cells_.push_back(std::move(cell));
  }
}

void Plan::refuse_overlap() const {
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    for (std::size_t j = i + 1; j < cells_.size(); ++j) {
      const inject::Population* const one = cells_[i].population->bits(0);
      const inject::Population* const other = cells_[j].population->bits(0);
      if (one == nullptr || other == nullptr) continue;
      const std::string bit = shared_bit(*one, *other);
      if (bit.empty()) continue;
      fail(ErrorCode::bad_input, "strata: cells {} and {} share {}; strata must not overlap",
           cells_[i].stratum.name, cells_[j].stratum.name, bit);
    }
  }
}

std::vector<record::Stratum> Plan::strata() const {
  std::vector<record::Stratum> strata;
  for (const Cell& cell : cells_) strata.push_back(cell.stratum);
  return strata;
}

void Plan::add_round(const record::Round& round) {
  rounds_.push_back(round);
  for (Cell& cell : cells_) {
    const auto drawn = std::find_if(round.strata.begin(), round.strata.end(),
                                    [&](const auto& one) { return one.stratum.name == cell.stratum.name; });
    if (drawn != round.strata.end()) cell.draws += drawn->draws;  // otherwise an extension added it later
  }
}

void Plan::add_known(const std::vector<record::Round>& published) {
  for (std::size_t i = rounds_.size(); i < published.size(); ++i) add_round(published[i]);
  while (!spec_.sampling && !ended()) add_round(analyze::next_round(spec_, strata(), rounds_, {}));
}

bool Plan::ended() const {
  const auto stops = std::count_if(rounds_.begin(), rounds_.end(),
                                   [](const record::Round& round) { return round.stop.has_value(); });
  return static_cast<std::size_t>(stops) == design::generations(spec_);
}

std::vector<RunKey> Plan::trials(const std::string& arm) const {
  std::vector<RunKey> keys;
  for (const Cell& cell : cells_) {
    for (std::uint64_t draw = 0; draw < cell.draws; ++draw) {
      keys.push_back({TrialKind::trial, {arm, cell.stratum.name, draw}});
    }
  }
  return keys;
}

const Cell* Plan::cell(const std::string& name) const {
  const auto found =
      std::find_if(cells_.begin(), cells_.end(), [&](const Cell& one) { return one.stratum.name == name; });
  return found == cells_.end() ? nullptr : &*found;
}

record::TrialSpec Plan::expand(const RunKey& key) const {
  record::TrialSpec run;
  run.kind = key.kind;
  run.id = key.id;
  run.epochs = spec_.resume_epochs;
  run.order = order_of(key, spec_.orders);
  if (run.order > 0)
    run.order_seed = random_u64(derive_key(spec_.seed, "order"), static_cast<std::uint64_t>(run.order), 0);
  switch (key.kind) {
    case TrialKind::control:
      if (key.id.stratum == record::zero_step_stratum) run.epochs = 0;
      break;
    case TrialKind::envelope:
      run.order_seed = random_u64(derive_key(spec_.seed, "envelope"), key.id.draw, 0);
      break;
    case TrialKind::held_out:
      run.order_seed = random_u64(derive_key(spec_.seed, "held_out"), key.id.draw, 0);
      break;
    case TrialKind::jitter:
      run.faults = jitter_faults(key.id);
      run.replicas = replicas_of(key.id);
      break;
    case TrialKind::canary:
      if (plants_own(key, run)) break;
      run.whole = whole_tensors(key.id);
      if (key.id.stratum == name_of(BaseCanary::negate)) run.epochs = 0;
      break;
    case TrialKind::trial:
      expand_trial(key, run);
      break;
  }
  return run;
}

void Plan::expand_trial(const RunKey& key, record::TrialSpec& run) const {
  const Cell& found = *cell(find(key.id).id.stratum);
  const design::Arm& of = arm(key.id.arm);
  const std::string& name = found.stratum.name;
  run.faults = found.population->draw(derive_key(spec_.seed, "stratum/" + spec_.strata->draws_of(name)),
                                      key.id.draw, of.file);
  if (spec_.strata->alters_file()) run.replicas = replicas_of(key.id);
  if (spec_.strata->recovers()) run.recovery = of.recovery;
  if (const record::FaultModel* const model = spec_.strata->model(name)) {
    run.measure = model->measure;
    run.plane = model->plane;
  }
}

std::vector<int> Plan::replicas_of(const TrialId& id) const {
  const record::Scope& scope = arm(id.arm).scope;
  if (scope.count == 0) return scope.replicas;
  const auto all = static_cast<std::uint64_t>(arm(id.arm).parallel.replicas());
  const Permutation order(all, random_u64(derive_key(spec_.seed, "scope/" + id.stratum), id.draw, 0));
  std::vector<int> chosen;
  chosen.reserve(static_cast<std::size_t>(scope.count));
  for (int i = 0; i < scope.count; ++i)
    chosen.push_back(static_cast<int>(order(static_cast<std::uint64_t>(i))));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<std::vector<RunKey>> Plan::preparation(const std::string& arm) const {
  std::vector<std::vector<RunKey>> chains;
  const auto add = [&](TrialKind kind, const std::string& stratum, int count) {
    for (RunKey& key : run_each(arm, kind, stratum, count)) chains.push_back({std::move(key)});
  };
  for (int order = 0; order < spec_.orders; ++order)
    add(TrialKind::control, record::control_stratum(order), spec_.control_repeats);
  add(TrialKind::control, std::string(record::zero_step_stratum), 1);
  add(TrialKind::envelope, name_of(TrialKind::envelope), spec_.envelope_runs);
  add(TrialKind::held_out, name_of(TrialKind::held_out), spec_.held_out_runs);
  add(TrialKind::jitter, name_of(TrialKind::jitter), spec_.jitter_runs);
  std::vector<RunKey> chain;
  chain.reserve(std::size(design::base_canaries) + read_.size() + 1);
  for (const BaseCanary canary : design::base_canaries) {
    // The run that alters nothing comes last: it also shows that the others left nothing behind.
    for (const auto& [role, tensors] : read_) {
      if (canary != BaseCanary::none || !spec_.reader_canaries.value_or(false)) break;
      chain.push_back({TrialKind::canary, {arm, design::reader_canary(role), 0}});
    }
    chain.push_back({TrialKind::canary, {arm, name_of(canary), 0}});
  }
  chain.push_back({TrialKind::control,
                   {arm, record::control_stratum(0), static_cast<std::uint64_t>(spec_.control_repeats)}});
  chains.push_back(std::move(chain));
  add_own_canaries(arm, chains);
  return chains;
}

// The canaries that a worker survives are one chain, with a control after them.
void Plan::add_own_canaries(const std::string& arm, std::vector<std::vector<RunKey>>& chains) const {
  std::vector<RunKey> survived;
  for (const design::Canary& canary : spec_.strata->canaries(this->arm(arm).recovery)) {
    RunKey key{TrialKind::canary, {arm, canary.stratum, 0}};
    if (canary.survives) {
      survived.push_back(std::move(key));
    } else {
      chains.push_back({std::move(key)});
    }
  }
  if (survived.empty()) return;
  survived.push_back(
      {TrialKind::control,
       {arm, record::control_stratum(0), static_cast<std::uint64_t>(spec_.control_repeats) + 1}});
  chains.push_back(std::move(survived));
}

bool Plan::plants_own(const RunKey& key, record::TrialSpec& run) const {
  const design::Arm& of = arm(key.id.arm);
  for (const design::Canary& canary : spec_.strata->canaries(of.recovery)) {
    if (canary.stratum != key.id.stratum) continue;
    spec_.strata->plant(canary.stratum, setting(of), of.recovery, run);
    return true;
  }
  return false;
}

std::vector<record::WholeTensor> Plan::whole_tensors(const TrialId& id) const {
  if (id.stratum == name_of(BaseCanary::nan)) return {{weights_.front(), record::WholeChange::nan}};
  if (const auto role = design::role_of_reader_canary(id.stratum)) {
    const std::set<std::string>& tensors = read_.at(*role);
    std::vector<record::WholeTensor> whole;
    std::uint64_t all = 0;
    for (const std::string& path : tensors) all += bases_.front().find(path)->elements();
    // Faults take ten times the memory of the weights that they alter; a few NaN spread as well as many.
    const std::uint64_t most =
        all <= most_read_elements ? 0 : std::max<std::uint64_t>(1, most_read_elements / tensors.size());
    whole.reserve(tensors.size());
    for (const std::string& path : tensors) whole.push_back({path, record::WholeChange::nan, most});
    return whole;
  }
  if (id.stratum != name_of(BaseCanary::negate)) return {};
  std::vector<record::WholeTensor> layer;
  for (const std::string_view name : {"weight", "kernel"}) {
    if (!weights_.back().ends_with(name)) continue;
    const std::string bias = weights_.back().substr(0, weights_.back().size() - name.size()) + "bias";
    if (bases_[arm(id.arm).file].find(bias) != nullptr) layer.push_back({bias, record::WholeChange::negate});
  }
  layer.push_back({weights_.back(), record::WholeChange::negate});
  return layer;
}

record::FaultList Plan::jitter_faults(const TrialId& id) const {
  const ckpt::Reader& base = bases_[arm(id.arm).file];
  record::FaultModel model = jitter_model(base);
  model.seed = random_u64(derive_key(spec_.seed, "jitter"), id.draw, 0);
  return inject::draw(base, model);
}

void Plan::check_jitter() const {
  if (spec_.jitter_runs == 0) return;
  for (const ckpt::Reader& base : bases_) {
    try {
      static_cast<void>(inject::draw(base, jitter_model(base)));
    } catch (const Error& error) {
      fail(error.code(), "controls.jitter: the lowest bits of weights cannot be flipped in {}: {}",
           base.path().string(), error.what());
    }
  }
}

void Plan::find_weights() {
  const ckpt::Reader& base = bases_.front();
  std::set<std::string> unused;
  for (const record::BaseFile& file : spec_.files) unused.insert(file.unused.begin(), file.unused.end());
  weights_ = used_weights(base, unused);
  if (weights_.empty()) {
    fail(
        ErrorCode::bad_input,
        "{}: no tensor has the role weight, so the canaries (NaN first weight, negated last layer) cannot be "
        "planted; docs/roles.md lists the names of weights",
        base.path().string());
  }
}

RunKey Plan::find(const TrialId& id) const {
  try {
    static_cast<void>(spec_.arm_index(id.arm));
  } catch (const Error& error) {
    fail(error.code(), "{}: {}", id.text(), error.what());
  }
  const Cell* found = cell(id.stratum);
  if (found == nullptr) {
    for (const auto& chain : preparation(id.arm)) {
      for (const RunKey& key : chain) {
        if (key.id == id) return key;
      }
    }
    std::vector<std::string> names;
    for (const Cell& one : cells_) names.push_back(one.stratum.name);
    fail(ErrorCode::bad_input, "{}: no stratum '{}' in this campaign; there are {}", id.text(), id.stratum,
         fmt::join(names, ", "));
  }
  // Later rounds may draw any fault of the stratum.
  const bool any = spec_.sampling || spec_.exhaustive;
  const std::uint64_t draws = any ? found->stratum.bits : spec_.trials_per_stratum;
  if (id.draw >= draws) {
    fail(ErrorCode::bad_input, "{}: stratum {} has draws 0 to {}", id.text(), id.stratum, draws - 1);
  }
  return {TrialKind::trial, id};
}

std::uint64_t Plan::stratum_bits(const RunKey& key) const {
  if (key.kind != TrialKind::trial) return 0;
  const Cell* found = cell(key.id.stratum);
  return found == nullptr ? 0 : found->stratum.bits;
}

}  // namespace bitrift::campaign
