#include "campaign/plan.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iterator>
#include <utility>

#include "analyze/allocate.h"
#include "core/error.h"
#include "core/permutation.h"
#include "core/philox.h"

namespace bitrift::campaign {
namespace {

using record::TrialId;
using record::TrialKind;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// The digits at the front of a text, without leading zeros.
std::string_view number_at_front(std::string_view text, std::size_t& length) {
  length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  std::size_t zeros = 0;
  while (zeros + 1 < length && text[zeros] == '0') ++zeros;
  return text.substr(zeros, length - zeros);
}

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

TrialId trial_id_from_text(const std::string& text) {
  const auto last = text.rfind('/');
  const auto middle = last == std::string::npos || last == 0 ? std::string::npos : text.rfind('/', last - 1);
  TrialId id;
  if (middle != std::string::npos && middle > 0 && middle + 1 < last) {
    const char* const begin = text.data() + last + 1;
    const char* const end = text.data() + text.size();
    const auto parsed = std::from_chars(begin, end, id.draw);
    if (begin != end && parsed.ec == std::errc() && parsed.ptr == end) {
      id.arm = text.substr(0, middle);
      id.stratum = text.substr(middle + 1, last - middle - 1);
      return id;
    }
  }
  fail(ErrorCode::bad_input,
       "'{}' names no trial: expected ARM/STRATUM/DRAW, as `bitrift campaign list` prints them", text);
}

bool natural_less(std::string_view first, std::string_view second) {
  const std::string_view whole_first = first;
  const std::string_view whole_second = second;
  while (!first.empty() && !second.empty()) {
    if (is_digit(first.front()) && is_digit(second.front())) {
      std::size_t length = 0;
      std::size_t other_length = 0;
      const std::string_view number = number_at_front(first, length);
      const std::string_view other = number_at_front(second, other_length);
      if (number.size() != other.size()) return number.size() < other.size();
      if (number != other) return number < other;
      first.remove_prefix(length);
      second.remove_prefix(other_length);
    } else {
      if (first.front() != second.front()) return first.front() < second.front();
      first.remove_prefix(1);
      second.remove_prefix(1);
    }
  }
  if (first.empty() && second.empty()) return whole_first < whole_second;
  return first.empty();
}

Plan::Plan(const record::CampaignSpec& spec, const ckpt::Reader& base) : spec_(spec), base_(base) {
  for (const std::string& role : spec.strata.roles) {
    for (const std::string& field : spec.strata.fields) add_cell(role, field);
  }
  refuse_overlap();
  add_round(analyze::next_round(spec, strata(), {}, {}));
  for (const ckpt::TensorInfo& tensor : base.tensors()) {
    if (tensor.role == "weight" && tensor.path.starts_with("model/")) weights_.push_back(tensor.path);
  }
  std::sort(weights_.begin(), weights_.end(), natural_less);
  if (weights_.empty()) {
    fail(ErrorCode::bad_input,
         "{}: holds no weight under model/, so the canaries (NaN first weight, negated last layer) cannot be "
         "planted",
         base.path().string());
  }
}

void Plan::add_cell(const std::string& role, const std::string& field) {
  const std::string name = role + "." + field;
  try {
    Cell cell{{name, role, field, 0}, inject::Population(base_, spec_.strata.tensors, {role}, field), 0};
    cell.stratum.bits = cell.population.bits();
    if (spec_.trials_per_stratum > cell.stratum.bits) {
      fail(ErrorCode::bad_input,
           "it holds {} bits, but trials_per_stratum asks for {} draws without replacement",
           cell.stratum.bits, spec_.trials_per_stratum);
    }
    cells_.push_back(std::move(cell));
  } catch (const Error& error) {
    fail(error.code(), "strata: cell {} (role {}, field {}): {}", name, role, field, error.what());
  }
}

void Plan::refuse_overlap() const {
  for (std::size_t i = 0; i < cells_.size(); ++i) {
    for (std::size_t j = i + 1; j < cells_.size(); ++j) {
      const std::string bit = shared_bit(cells_[i].population, cells_[j].population);
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
  for (std::size_t i = 0; i < cells_.size(); ++i) cells_[i].draws += round.strata.at(i).draws;
}

std::vector<std::vector<RunKey>> Plan::preparation(const std::string& arm) const {
  std::vector<std::vector<RunKey>> chains;
  const auto repeats = static_cast<std::uint64_t>(spec_.control_repeats);
  for (std::uint64_t i = 0; i < repeats; ++i) chains.push_back({{TrialKind::control, {arm, "control", i}}});
  chains.push_back({{TrialKind::control, {arm, std::string(zero_step_stratum), 0}}});
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(spec_.envelope_runs); ++i) {
    chains.push_back({{TrialKind::envelope, {arm, "envelope", i}}});
  }
  std::vector<RunKey> chain;
  for (const std::string_view kind : canary_kinds) {
    chain.push_back({TrialKind::canary, {arm, "canary:" + std::string(kind), 0}});
  }
  chain.push_back({TrialKind::control, {arm, "control", repeats}});
  chains.push_back(std::move(chain));
  return chains;
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
  switch (key.kind) {
    case TrialKind::control:
      if (key.id.stratum == zero_step_stratum) run.epochs = 0;
      break;
    case TrialKind::envelope:
      run.order_seed = random_u64(derive_key(spec_.seed, "envelope"), key.id.draw, 0);
      break;
    case TrialKind::canary:
      run.faults = canary_faults(key.id.stratum);
      if (key.id.stratum == "canary:negate") run.epochs = 0;
      break;
    case TrialKind::trial: {
      const Cell& found = *cell(find(key.id).id.stratum);
      const Permutation order(found.stratum.bits, derive_key(spec_.seed, "stratum/" + found.stratum.name));
      run.faults = {inject::flip_at(base_, found.population.locate(order(key.id.draw)))};
      run.replicas = replicas_of(key.id);
      break;
    }
  }
  return run;
}

std::vector<int> Plan::replicas_of(const TrialId& id) const {
  const auto arm = std::find_if(spec_.arms.begin(), spec_.arms.end(),
                                [&](const record::Arm& one) { return one.name == id.arm; });
  if (arm->scope.count == 0) return arm->scope.replicas;
  const auto all = static_cast<std::uint64_t>(arm->parallel.replicas());
  const Permutation order(all, random_u64(derive_key(spec_.seed, "scope/" + id.stratum), id.draw, 0));
  std::vector<int> chosen;
  chosen.reserve(static_cast<std::size_t>(arm->scope.count));
  for (int i = 0; i < arm->scope.count; ++i)
    chosen.push_back(static_cast<int>(order(static_cast<std::uint64_t>(i))));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

std::vector<record::AppliedFault> Plan::canary_faults(const std::string& stratum) const {
  if (stratum == "canary:nan") return inject::whole_tensor(base_, weights_.front(), "nan");
  if (stratum != "canary:negate") return {};
  std::string bias = weights_.back();
  bias.replace(bias.size() - std::string_view("weight").size(), std::string::npos, "bias");
  std::vector<record::AppliedFault> faults;
  if (base_.find(bias) != nullptr) faults = inject::whole_tensor(base_, bias, "negate");
  const auto weight = inject::whole_tensor(base_, weights_.back(), "negate");
  faults.insert(faults.end(), weight.begin(), weight.end());
  return faults;
}

RunKey Plan::find(const TrialId& id) const {
  const auto arm = std::find_if(spec_.arms.begin(), spec_.arms.end(),
                                [&](const record::Arm& one) { return one.name == id.arm; });
  if (arm == spec_.arms.end()) {
    std::vector<std::string> names;
    for (const record::Arm& one : spec_.arms) names.push_back(one.name);
    fail(ErrorCode::bad_input, "{}: no arm '{}' in this campaign; there are {}", id.text(), id.arm,
         fmt::join(names, ", "));
  }
  for (const auto& chain : preparation(id.arm)) {
    for (const RunKey& key : chain) {
      if (key.id == id) return key;
    }
  }
  const Cell* found = cell(id.stratum);
  if (found == nullptr) {
    std::vector<std::string> names;
    for (const Cell& one : cells_) names.push_back(one.stratum.name);
    fail(ErrorCode::bad_input, "{}: no stratum '{}' in this campaign; there are {}", id.text(), id.stratum,
         fmt::join(names, ", "));
  }
  // Later rounds may draw any fault of the stratum.
  const std::uint64_t draws = spec_.sampling ? found->stratum.bits : found->draws;
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
