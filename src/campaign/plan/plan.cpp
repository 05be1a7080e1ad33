#include "campaign/plan/plan.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include <fmt/ranges.h>

#include "analyze/allocate.h"
#include "campaign/plan/own_canaries.h"
#include "campaign/plan/shared_faults.h"
#include "core/error.h"
#include "core/glob.h"
#include "core/natural_order.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "record/stratum_name.h"
#include "spec/extension.h"

namespace bitrift::campaign {
namespace {

using record::Canary;
using record::TrialId;
using record::TrialKind;

// So small a change of so few weights that a training must not suffer from it.
record::FaultModel jitter_model(const ckpt::Reader& base) {
  record::FaultModel model;
  model.tensors = {"model/**"};
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

// The globs of strata.tensors by role: each cell is one role, and a glob may be meant for some of the roles.
bool selects(const std::string& glob, const ckpt::Reader& base, const std::vector<std::string>& roles) {
  const auto wanted = [&](const ckpt::TensorInfo& tensor) {
    return std::find(roles.begin(), roles.end(), tensor.role) != roles.end() &&
           glob_selects(glob, tensor.path, tensor.holder, tensor.attribute);
  };
  if (std::any_of(base.tensors().begin(), base.tensors().end(), wanted)) return true;
  if (glob.find('@') == std::string::npos) return false;
  const auto& attributes = base.attribute_tensors();
  return std::any_of(attributes.begin(), attributes.end(), wanted);
}

void check_globs(const record::StrataSpec& strata, const ckpt::Reader& base) {
  for (const std::string& glob : strata.tensors) {
    if (selects(glob, base, strata.roles)) continue;
    fail(
        ErrorCode::not_found,
        "strata.tensors: {}: no tensor of role {} matches '{}' (* matches within one name, ** also matches . "
        "and /; see bitrift ls); correct or remove it",
        base.path().string(), fmt::join(strata.roles, " or "), glob);
  }
}

std::vector<std::string> globs_of_role(const record::StrataSpec& strata, const ckpt::Reader& base,
                                       const std::string& role) {
  std::vector<std::string> globs;
  std::copy_if(strata.tensors.begin(), strata.tensors.end(), std::back_inserter(globs),
               [&](const std::string& glob) { return selects(glob, base, {role}); });
  if (globs.empty() && !strata.tensors.empty()) {
    fail(ErrorCode::not_found,
         "{}: no tensor of this role matches strata.tensors; remove the role, or add a glob",
         base.path().string());
  }
  return globs;
}

}  // namespace

Plan::Plan(const record::CampaignSpec& spec, const Bases& bases) : spec_(spec), bases_(bases) {
  const std::vector<record::Stratum> strata = record::strata_of(spec.strata);
  for (const ckpt::Reader& base : bases) check_globs(spec.strata, base);
  for (std::size_t i = 0; i < strata.size(); ++i) {
    try {
      if (spec.strata.process) {
        add_processes(strata[i], spec.strata.process->phases[i]);
      } else if (spec.strata.wire) {
        add_messages(strata[i]);
      } else if (spec.strata.link) {
        add_links(strata[i]);
      } else if (spec.strata.models.empty()) {
        add_cell(strata[i]);
      } else {
        add_model(strata[i], spec.strata.models[i].model);
      }
    } catch (const Error& error) {
      fail(error.code(), "strata: {} {} (role {}, field {}): {}",
           spec.strata.models.empty() ? "cell" : "model", strata[i].name, strata[i].role, strata[i].field,
           error.what());
    }
  }
  refuse_overlap();
  add_round(analyze::next_round(spec, this->strata(), {}, {}));
  find_weights();
  check_jitter();
}

void Plan::add_cell(const record::Stratum& stratum) {
  Cell cell;
  cell.stratum = stratum;
  for (const ckpt::Reader& base : bases_) {
    cell.populations.emplace_back(base, globs_of_role(spec_.strata, base, stratum.role),
                                  std::vector{stratum.role}, stratum.field);
    refuse_other_bits(cell.populations.front(), bases_.front(), cell.populations.back(), base);
  }
  add_read(cell.populations.front(), true);
  cell.stratum.bits = cell.populations.front().bits();
  add_counted(std::move(cell));
}

void Plan::add_processes(const record::Stratum& stratum, record::TrainingPhase phase) {
  Cell cell;
  cell.stratum = stratum;
  cell.processes.emplace(phase, *spec_.strata.process, spec_.arms.front().parallel, spec_.resume_epochs);
  cell.stratum.bits = cell.processes->size();
  add_counted(std::move(cell));
}

void Plan::add_messages(const record::Stratum& stratum) {
  Cell cell;
  cell.stratum = stratum;
  cell.messages.emplace(parse_named<record::MessageKind>(stratum.role), stratum.field, *spec_.strata.wire,
                        spec_.resume_epochs);
  cell.stratum.bits = cell.messages->size();
  add_counted(std::move(cell));
}

void Plan::add_links(const record::Stratum& stratum) {
  Cell cell;
  cell.stratum = stratum;
  cell.links.emplace(parse_named<record::LinkFailure>(stratum.field), *spec_.strata.link,
                     *spec_.arms.front().parallel.mesh, spec_.resume_epochs);
  cell.stratum.bits = cell.links->size();
  add_counted(std::move(cell));
}

void Plan::add_counted(Cell cell) {
  if (spec_.trials_per_stratum > cell.stratum.bits) {
    fail(ErrorCode::bad_input, "it holds {} {}, but trials_per_stratum needs {} draws without replacement",
         cell.stratum.bits, cell.processes || cell.links ? "faults" : "bits", spec_.trials_per_stratum);
  }
  cells_.push_back(std::move(cell));
}

void Plan::add_model(const record::Stratum& stratum, const record::FaultModel& model) {
  if (model.plane == record::Plane::metadata) {
    // Files of other tensors have other structures: each base is drawn from by itself.
    for (const ckpt::Reader& base : bases_) static_cast<void>(inject::draw(base, model));
    cells_.push_back({.stratum = stratum, .populations = {}, .model = &model});
    return;
  }
  const inject::Population first = inject::population_of(bases_.front(), model);
  for (const ckpt::Reader& base : bases_) {
    refuse_other_bits(first, bases_.front(), inject::population_of(base, model), base,
                      inject::Alteration(model).whole());
    static_cast<void>(inject::draw(base, model));  // more than there is, and what else cannot be drawn
  }
  if (model.plane == record::Plane::value) add_read(first, !model.roles.empty());
  cells_.push_back({.stratum = stratum, .populations = {}, .model = &model});
}

// named: the spec names the roles. If it does not, a trainer need not read what does not belong to its state.
void Plan::add_read(const inject::Population& population, bool named) {
  for (const inject::Target& target : population.targets()) {
    const ckpt::TensorInfo* const tensor = bases_.front().find(target.path);
    if (tensor == nullptr || !tensor->format || tensor->format->kind != NumberKind::floating) continue;
    const bool state = target.role != "unknown" && target.role != "progress" && target.role != "checksum";
    if (named || state) read_[target.role].insert(target.path);
  }
}

void Plan::refuse_overlap() const {
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    for (std::size_t j = i + 1; j < cells_.size(); ++j) {
      // Models are studied one by one: they may hit the same bits.
      if (cells_[i].populations.empty() || cells_[j].populations.empty()) continue;
      const std::string bit = shared_bit(cells_[i].populations.front(), cells_[j].populations.front());
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
    if (drawn != round.strata.end()) cell.draws += drawn->draws;  // else an extension added it later
  }
}

void Plan::add_known(const std::vector<record::Round>& published) {
  for (std::size_t i = rounds_.size(); i < published.size(); ++i) add_round(published[i]);
  while (!spec_.sampling && !ended()) add_round(analyze::next_round(spec_, strata(), rounds_, {}));
}

bool Plan::ended() const {
  const auto stops = std::count_if(rounds_.begin(), rounds_.end(),
                                   [](const record::Round& round) { return round.stop.has_value(); });
  return static_cast<std::size_t>(stops) == record::generations(spec_);
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
      if (expand_own_canary(spec_, arm(key.id.arm), key.id.stratum, run)) break;
      run.whole = whole_tensors(key.id);
      if (key.id.stratum == name_of(Canary::negate)) run.epochs = 0;
      break;
    case TrialKind::trial:
      expand_trial(key, run);
      break;
  }
  return run;
}

void Plan::expand_trial(const RunKey& key, record::TrialSpec& run) const {
  const Cell& found = *cell(find(key.id).id.stratum);
  if (found.processes || found.messages || found.links) {
    const Permutation order(found.stratum.bits, derive_key(spec_.seed, "stratum/" + found.stratum.name));
    const std::uint64_t member = order(key.id.draw);
    if (found.messages) {
      run.faults = std::vector{found.messages->at(member)};
    } else {
      run.faults = found.links ? record::Faults(std::vector{found.links->at(member)})
                               : record::Faults(found.processes->at(member));
      run.recovery = arm(key.id.arm).recovery;
    }
    return;
  }
  run.faults = drawn_faults(key.id);
  run.replicas = replicas_of(key.id);
  if (found.model != nullptr) {
    run.measure = found.model->measure;
    run.plane = found.model->plane;
  }
}

record::FaultList Plan::drawn_faults(const TrialId& id) const {
  const std::size_t file = arm(id.arm).file;
  const Cell& found = *cell(id.stratum);
  const std::uint64_t stratum_key = derive_key(spec_.seed, "stratum/" + found.stratum.name);
  if (found.model == nullptr) {
    const Permutation order(found.stratum.bits, stratum_key);
    return record::compact({inject::flip_at(bases_[file], found.populations[file].locate(order(id.draw)))});
  }
  record::FaultModel model = *found.model;
  model.seed = random_u64(stratum_key, id.draw, 0);
  return inject::draw(bases_[file], model);
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
  chain.reserve(std::size(record::canaries) + read_.size() + 1);
  for (const Canary canary : record::canaries) {
    // Last comes the run that alters nothing: it also shows that the others left nothing behind.
    for (const auto& [role, tensors] : read_) {
      if (canary != Canary::none || !spec_.reader_canaries.value_or(false)) break;
      chain.push_back({TrialKind::canary, {arm, record::reader_canary(role), 0}});
    }
    chain.push_back({TrialKind::canary, {arm, name_of(canary), 0}});
  }
  chain.push_back({TrialKind::control,
                   {arm, record::control_stratum(0), static_cast<std::uint64_t>(spec_.control_repeats)}});
  chains.push_back(std::move(chain));
  for (auto& own : own_canary_chains(spec_, this->arm(arm))) chains.push_back(std::move(own));
  return chains;
}

std::vector<record::WholeTensor> Plan::whole_tensors(const TrialId& id) const {
  if (id.stratum == name_of(Canary::nan)) return {{weights_.front(), record::WholeChange::nan}};
  if (const auto role = record::role_of_reader_canary(id.stratum)) {
    const std::set<std::string>& tensors = read_.at(*role);
    std::vector<record::WholeTensor> whole;
    std::uint64_t all = 0;
    for (const std::string& path : tensors) all += bases_.front().find(path)->elements();
    // Faults take ten times the memory of the weights that they hit; a few NaN spread as well as many.
    const std::uint64_t most =
        all <= most_read_elements ? 0 : std::max<std::uint64_t>(1, most_read_elements / tensors.size());
    whole.reserve(tensors.size());
    for (const std::string& path : tensors) whole.push_back({path, record::WholeChange::nan, most});
    return whole;
  }
  if (id.stratum != name_of(Canary::negate)) return {};
  std::vector<record::WholeTensor> layer;
  std::string bias = weights_.back();
  bias.replace(bias.size() - std::string_view("weight").size(), std::string::npos, "bias");
  if (bases_[arm(id.arm).file].find(bias) != nullptr) layer.push_back({bias, record::WholeChange::negate});
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
  for (const ckpt::TensorInfo& tensor : base.tensors()) {
    const bool counts = tensor.alias_of.empty() && !tensor.left_out;
    if (tensor.role == "weight" && tensor.path.starts_with("model/") && counts)
      weights_.push_back(tensor.path);
  }
  std::sort(weights_.begin(), weights_.end(), natural_less);
  if (weights_.empty()) {
    fail(ErrorCode::bad_input,
         "{}: holds no weight under model/, so the canaries (NaN first weight, negated last layer) cannot be "
         "planted",
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
