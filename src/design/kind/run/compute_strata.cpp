#include "design/kind/run/compute_strata.h"

#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/number/number_format.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "core/text/glob.h"
#include "design/kind/run/recoveries.h"

namespace bitrift::design {
namespace {

using record::ComputeFault;
using record::ComputeMap;
using record::ComputeSite;
using record::Json;

constexpr const char* unreached = "canary:compute-unreached";
constexpr const char* all_outputs = "canary:compute-all";
constexpr const char* permanent = "permanent";

// At each site a whole tensor is struck: one number may change nothing, such as an output of 3 that becomes 0
// where another class has a probability of 1.
std::string canary_at(ComputeSite site) { return fmt::format("canary:compute-{}", name_of(site)); }

int highest_bit(const ComputeMap::Tensor& tensor) {
  return static_cast<int>(number_format(tensor.dtype).value().bytes) * 8 - 1;
}

std::int64_t lasting_from(const record::Document& document, const Json& value) {
  if (value.is_number()) return value.get<std::int64_t>();
  if (value == permanent) return 0;
  fail(ErrorCode::bad_input, "{}: expected a number of times or \"{}\"; found {}",
       document.where("/strata/compute/lasting"), permanent, value.dump());
}

const char* what_is(ComputeSite site) {
  constexpr std::array words = {"outputs of layers", "gradients of outputs of layers",
                                "gradients of parameters on one replica", "updates of parameters",
                                "parameters before a step"};
  return words[static_cast<std::size_t>(site)];
}

constexpr std::uint64_t most_computed = std::uint64_t{1} << 53U;

// From which what is random in a member follows.
std::uint64_t key_of(std::uint64_t index) { return random_u64(derive_key(0, "compute-group"), index, 0); }

// The layer itself, or the one with the longest name that a parameter's key begins with.
std::string layer_of(const std::string& tensor, const ComputeMap& map) {
  std::string found;
  for (const ComputeMap::Tensor& layer : map.layers) {
    const bool within = tensor == layer.name || tensor.starts_with(layer.name + ".");
    if (within && layer.name.size() > found.size()) found = layer.name;
  }
  return found;
}

// So many different numbers below `size`, the first of which is given. The others are random, or each of them
// is `stride` after the one before it.
std::vector<std::uint64_t> numbers_with(std::uint64_t first, std::uint64_t count, std::uint64_t size,
                                        bool random, std::uint64_t stride, std::uint64_t key) {
  std::vector<std::uint64_t> numbers = {first};
  if (!random) {
    while (numbers.size() < count) numbers.push_back((numbers.back() + stride % size) % size);
    return numbers;
  }
  const Permutation order(size, key);
  for (std::uint64_t i = 0; numbers.size() < count; ++i) {
    if (order(i) != first) numbers.push_back(order(i));
  }
  return numbers;
}

[[noreturn]] void fail_of_size(const ComputeStrata& strata) {
  fail(ErrorCode::bad_input, "it holds more than 2^53 {}; name fewer steps or tensors{}", strata.members(),
       strata.patterns.weighted() ? ", or smaller weights" : "");
}

}  // namespace

Json ComputeStrata::to_json() const {
  Json value = {{"sites", sites}};
  add_patterns(value, patterns);
  if (!tensors.empty()) value["tensors"] = tensors;
  if (steps) value["steps"] = design::to_json(*steps);
  if (lasting == 0) value["lasting"] = permanent;
  if (lasting > 1) value["lasting"] = lasting;
  if (every != 1) value["every"] = every;
  if (paired) value["paired"] = true;
  if (computations) value["computations"] = record::to_json(*computations);
  return {{"compute", value}};
}

std::vector<record::Stratum> ComputeStrata::strata() const {
  std::vector<record::Stratum> list;
  for (const ComputeSite site : sites) {
    for (const ComputePattern& pattern : patterns.list)
      list.push_back({fmt::format("{}.{}", name_of(site), pattern.name), name_of(site), pattern.name, 0});
  }
  return list;
}

std::string ComputeStrata::draws_of(const std::string& stratum) const {
  if (!paired) return stratum;
  const auto point = stratum.find('.');
  const auto site = parse_named<ComputeSite>(stratum.substr(0, point));
  return (record::of_layers(site) ? "layers" : "parameters") + stratum.substr(point);
}

void ComputeStrata::check(const record::Document& document, const std::vector<record::Parallel>& arms,
                          const std::vector<record::RecoverySpec>&) const {
  refuse_key(
      document, "/runner/exec",
      "only bitrift-train's own models and scripts under runner.python can be struck while they compute; "
      "use one of them, or remove strata.compute");
  refuse_key(document, "/propagation",
             "follows bits that are altered in a file, and these faults alter none; remove the key");
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const std::string arm = pointer_of_arm(i);
    refuse_key(document, arm + "/scope",
               "says who loads an altered file, and these faults alter none; remove the key");
    refuse_key(document, arm + "/precision",
               "decides which bits are computed; give base.train.precision, for all arms");
    if (arms[i] != arms.front()) {
      refuse_key(document, arm + "/parallel",
                 "differs from that of the first arm: every fault must exist in every arm; use one campaign "
                 "for each layout");
    }
    const bool updates = std::ranges::count(sites, ComputeSite::update) != 0;
    if (updates && arms[i].shard_optimizer) {
      refuse_key(document, arm + "/parallel",
                 "shards the optimizer, so that a replica updates only a part of the parameters; leave "
                 "'update' out of strata.compute.sites");
    }
  }
}

std::unique_ptr<const Population> ComputeStrata::population(std::size_t index, const Setting& setting) const {
  const std::size_t each = patterns.list.size();
  return std::make_unique<ComputePopulation>(sites.at(index / each), patterns.list[index % each], *this,
                                             setting.epochs);
}

std::optional<FactNeeded> ComputeStrata::fact_needed() const {
  return FactNeeded{"computations", "/strata/compute/computations", "which numbers a step computes",
                    "the numbers that a step computes"};
}

std::optional<Json> ComputeStrata::fact() const {
  return computations ? std::optional(record::to_json(*computations)) : std::nullopt;
}

Strata ComputeStrata::with_fact(const Json& fact) const {
  ComputeStrata known = *this;
  known.computations = record::compute_map_from_json(fact);
  return known;
}

const ComputeMap& ComputeStrata::known_computations() const {
  if (!computations)
    fail(ErrorCode::bad_input, "which numbers a step computes is not known before the campaign has begun");
  return *computations;
}

std::vector<std::string> ComputeStrata::layers() const {
  return known_computations().names_at(ComputeSite::activation);
}

std::optional<std::int64_t> ComputeStrata::steps_of_run(std::int64_t epochs) const {
  return computations ? std::optional(computations->steps_per_epoch * epochs) : std::nullopt;
}

std::vector<Canary> ComputeStrata::canaries(const record::RecoverySpec&) const {
  std::vector<Canary> list = {{unreached, "numbers are to be struck after the end of the run",
                               Required::bitwise, false, "numbers were struck that were not to be"}};
  for (const ComputeSite site : sites) {
    Canary lands{canary_at(site),
                 fmt::format("highest exponent bits flipped in the middle of the run, in a tensor of the {}",
                             what_is(site)),
                 Required::altered, true, "the numbers that were to be struck were not"};
    lands.unmet = "huge numbers changed nothing";
    list.push_back(lands);
  }
  Canary all{all_outputs, "signs of all outputs of the last layer flipped in every step", Required::altered,
             true, "the numbers that were to be struck were not"};
  all.unmet = "the opposite of every output changed nothing";
  list.push_back(all);
  return list;
}

void ComputeStrata::plant(const std::string& stratum, const Setting& setting, const record::RecoverySpec&,
                          record::TrialSpec& run) const {
  const ComputeMap& map = known_computations();
  ComputeFault fault;
  const auto aim = [&](ComputeSite site) {
    std::vector<ComputeMap::Tensor> here = map.at(site);
    // The loss depends on an output that has a gradient.
    if (site == ComputeSite::activation && !map.at(ComputeSite::gradient).empty())
      here = map.at(ComputeSite::gradient);
    // A frozen parameter may belong to a part of the model that is not used.
    if (site == ComputeSite::parameter && !map.at(ComputeSite::update).empty())
      here = map.at(ComputeSite::update);
    if (here.empty()) fail(ErrorCode::bad_input, "the model has no {}", what_is(site));
    fault.site = site;
    fault.tensor = here.back().name;
    fault.bit = highest_bit(here.back()) - 1;
    fault.elements = here.back().elements;
    return here.back();
  };
  const std::int64_t last_step = steps_of_run(setting.epochs).value();
  const FullSteps full{map.steps_per_epoch, map.short_steps};
  fault.step = stratum == unreached ? last_step + 1 : full.at((full.among_first(last_step) - 1) / 2);
  if (stratum == all_outputs) {
    const ComputeMap::Tensor last = aim(ComputeSite::activation);
    fault.step = 1;
    fault.bit = highest_bit(last);
    fault.lasting = 0;
  } else {
    const auto named =
        std::ranges::find_if(sites, [&](ComputeSite site) { return canary_at(site) == stratum; });
    aim(named == sites.end() ? sites.front() : *named);
  }
  run.faults = std::vector{fault};
}

std::string ComputeStrata::no_rates_by(const std::string& word) const {
  if (of_bits() || word != "bit") return "";
  return patterns.weighted() ? "patterns of a mixture change several bits or whole numbers; group by field, "
                               "layer or tensor"
                             : "the faults of this campaign set whole numbers, so they have no bit; group by "
                               "layer or tensor";
}

Sentences ComputeStrata::sentences(const std::optional<std::uint64_t>& size) const {
  std::vector<std::string> names;
  for (const ComputeSite site : sites) names.emplace_back(what_is(site));
  Sentences said;
  const std::string except = computations && computations->short_steps > 0
                                 ? " but the last of an epoch, whose batch is smaller"
                                 : "";
  const std::string which = tensors.empty() ? "" : fmt::format(" that match {}", fmt::join(tensors, ", "));
  std::string when = lasting == 0  ? ", from then on in every step"
                     : lasting > 1 ? fmt::format(", in {} steps", lasting)
                                   : "";
  if (every != 1) when += fmt::format(", one in {}", every);
  said.faults[""] =
      fmt::format("{} among {}{}, in {}{}{}{}", patterns.one_fault(size), in_words(names, "and"), which,
                  steps ? "" : "all ", steps_text(steps), except, when + patterns.also_struck());
  said.rates = of_bits() ? rate_of_uniform("bit", "bits of numbers that a step computes")
                         : rate_of_uniform("number", "numbers that a step computes");
  if (patterns.weighted()) {
    said.rates =
        "Each rate is that of a number drawn uniformly from all that a step computes at the sites of its "
        "line, "
        "with a pattern drawn by its weight. In general, it is not the fraction of trials.";
  }
  said.limits = {
      "The rates are those of faults that are simulated in software, in whole tensors between layers and "
      "around the optimizer. They say nothing about how often hardware makes such errors, about numbers "
      "within a layer, or about faults in checkpoints."};
  if (!patterns.source.empty())
    said.limits.push_back(fmt::format("The patterns and their weights are from {}.", patterns.source));
  said.no_map = fmt::format(
      "A map by layer and bit would mix sites, whose numbers are others; bitrift analyze --by role,layer {}.",
      of_bits() ? "or --by role,bit gives the rates" : "gives the rates");
  return said;
}

Strata compute_strata_from(const record::Document& document) {
  const Json& value = document.value.at("strata").at("compute");
  ComputeStrata strata;
  strata.patterns = patterns_from(document, "/strata/compute");
  strata.sites = value.value("sites", strata.sites);
  strata.tensors = value.value("tensors", strata.tensors);
  strata.steps = step_range_from(document, "/strata/compute/steps");
  if (value.contains("lasting")) strata.lasting = lasting_from(document, value["lasting"]);
  strata.every = value.value("every", strata.every);
  strata.paired = value.value("paired", strata.paired);
  if (value.contains("computations"))
    strata.computations = record::compute_map_from_json(value["computations"]);
  if (strata.every != 1 && strata.lasting == 1) {
    fail(ErrorCode::bad_input,
         "{}: how far apart a fault strikes means nothing if it strikes once; give strata.compute.lasting, "
         "too",
         document.where("/strata/compute/every"));
  }
  if (strata.lasting != 1 && std::ranges::count(strata.sites, ComputeSite::parameter) != 0) {
    fail(ErrorCode::bad_input,
         "{}: a parameter keeps its flipped bit, and a second time would flip it back; leave the key or the "
         "site 'parameter' out",
         document.where("/strata/compute/lasting"));
  }
  return strata;
}

ComputePopulation::ComputePopulation(ComputeSite site, const ComputePattern& pattern,
                                     const ComputeStrata& strata, std::int64_t epochs)
    : pattern_(pattern), tickets_(pattern.weight > 0 ? pattern.weight / strata.patterns.unit() : 0) {
  const ComputeMap& map = strata.known_computations();
  if (site == ComputeSite::update && map.may_skip) {
    fail(ErrorCode::bad_input,
         "loss scaling may leave out an update, and a fault in it would not strike; take 'update' out of "
         "strata.compute.sites");
  }
  const StepRange range = drawn_steps(strata.steps, map.steps_per_epoch, epochs, "strata.compute.steps");
  first_ = {.site = site,
            .effect = pattern.effect,
            .lasting = strata.lasting,
            .every = strata.every,
            .elements = pattern.elements,
            .stride = pattern.stride};
  full_steps_ = {map.steps_per_epoch, map.short_steps};
  steps_before_ = full_steps_.among_first(range.first - 1);
  steps_ = static_cast<std::uint64_t>(full_steps_.among_first(range.last) - steps_before_);
  if (steps_ == 0) {
    fail(ErrorCode::bad_input,
         "strata.compute.steps names only steps at the end of an epoch, whose batches are smaller; name "
         "others");
  }
  replicas_ = static_cast<std::uint64_t>(map.replicas);
  find_tensors(strata, map);
  if (cells_ > most_computed / replicas_ / steps_) fail_of_size(strata);
}

void ComputePopulation::check_fits(const ComputeMap::Tensor& tensor) const {
  if (const std::int64_t most = first_.most_elements(tensor.elements); first_.elements > most) {
    fail(ErrorCode::bad_input,
         "a fault is to strike {} elements, but {} has {}{}; name other tensors, or fewer elements",
         first_.elements, tensor.name, most,
         most == tensor.elements ? "" : fmt::format(" that are {} apart", first_.stride));
  }
  const int width = highest_bit(tensor) + 1;
  if (pattern_.bits > width) {
    fail(ErrorCode::bad_input,
         "a fault is to flip {} bits, but a number of {} has {}; name other tensors, or fewer bits",
         pattern_.bits, tensor.name, width);
  }
}

void ComputePopulation::find_tensors(const ComputeStrata& strata, const ComputeMap& map) {
  const auto asked = [&](const std::string& name) {
    return strata.tensors.empty() ||
           std::ranges::any_of(strata.tensors, [&](const auto& glob) { return glob_match(glob, name); });
  };
  bool found = false;
  for (const ComputeMap::Tensor& tensor : map.at(first_.site)) {
    if (!asked(tensor.name)) continue;
    found = true;
    if (strata.paired && !tensor.trained) continue;  // it has no gradient and no update to be paired with
    check_fits(tensor);
    const NumberFormat format = number_format(tensor.dtype).value();
    if (pattern_.effect == record::ComputeEffect::inf && format.finite_only)
      fail(ErrorCode::bad_input, "{} has no infinity; name other tensors", tensor.name);
    const auto bits = pattern_.flips() ? bit_field(format, pattern_.field) : std::vector<unsigned>{0};
    if (bits.empty() && tickets_ > 0) {
      fail(ErrorCode::bad_input, "no number of {} has a bit of the field {}; name other tensors", tensor.name,
           pattern_.field);
    }
    if (bits.empty()) continue;
    const auto elements = static_cast<std::uint64_t>(tensor.elements);
    const auto passes = static_cast<std::uint64_t>(tensor.passes);
    const auto width = static_cast<unsigned>(format.bytes) * 8;
    const std::uint64_t each = tickets_ > 0 ? tickets_ : bits.size();
    tensors_.push_back(
        {tensor.name, layer_of(tensor.name, map), bits, width, elements, passes, each, cells_});
    if (elements * passes > (most_computed - cells_) / each) fail_of_size(strata);
    cells_ += elements * each * passes;
  }
  if (map.at(first_.site).empty()) {
    fail(ErrorCode::bad_input, "a step has no {} that can be struck; leave '{}' out of strata.compute.sites",
         what_is(first_.site), name_of(first_.site));
  }
  if (!found) {
    fail(ErrorCode::bad_input, "strata.compute.tensors names none of its {}: {}",
         of_layers(first_.site) ? "layers" : "parameters", fmt::join(map.names_at(first_.site), ", "));
  }
  if (cells_ == 0) fail(ErrorCode::bad_input, "no number there has such a bit");
}

std::vector<TensorMembers> ComputePopulation::computed() const {
  std::vector<TensorMembers> all;
  const bool of_bits = tickets_ == 0 && pattern_.flips();
  for (const Tensor& tensor : tensors_) {
    const std::uint64_t numbers = tensor.elements * tensor.passes * replicas_ * steps_;
    all.push_back({tensor.name, tensor.layer, of_bits ? numbers : numbers * tensor.each,
                   of_bits ? tensor.bits : std::vector<unsigned>()});
  }
  return all;
}

record::Faults ComputePopulation::member(std::uint64_t index, std::size_t) const {
  const ComputeFault first = at(index);
  const auto bits = static_cast<std::uint64_t>(pattern_.bits);
  if (bits == 1 && !pattern_.scattered) return std::vector{first};
  const Tensor& tensor = tensor_of(index);
  std::vector<std::uint64_t> neighbours;
  for (std::uint64_t i = 0; pattern_.adjacent && i < bits; ++i)
    neighbours.push_back(std::min(static_cast<std::uint64_t>(first.bit), tensor.width - bits) + i);
  if (pattern_.adjacent && !pattern_.scattered) {
    std::vector<ComputeFault> group(neighbours.size(), first);
    for (std::size_t i = 0; i < group.size(); ++i) group[i].bit = static_cast<int>(neighbours[i]);
    return group;
  }
  const std::uint64_t key = key_of(index);
  const auto elements = numbers_with(
      static_cast<std::uint64_t>(first.element), static_cast<std::uint64_t>(first.elements), tensor.elements,
      pattern_.scattered, static_cast<std::uint64_t>(first.stride), random_u64(key, 0, 0));
  std::vector<ComputeFault> group;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::uint64_t of_element = random_u64(key, 1, i);
    // Any bit may be the first one of an element that is not the first.
    const auto bit = i == 0 || bits == 1 ? static_cast<std::uint64_t>(first.bit)
                                         : random_below(of_element, 1, 0, tensor.width);
    const auto flips =
        pattern_.adjacent ? neighbours : numbers_with(bit, bits, tensor.width, true, 1, of_element);
    for (const std::uint64_t flipped : flips) {
      ComputeFault& fault = group.emplace_back(first);
      fault.element = static_cast<std::int64_t>(elements[i]);
      fault.bit = static_cast<int>(flipped);
      fault.elements = fault.stride = 1;
    }
  }
  return group;
}

const ComputePopulation::Tensor& ComputePopulation::tensor_of(std::uint64_t index) const {
  return *(std::ranges::upper_bound(tensors_, index / steps_ / replicas_, {}, &Tensor::before) - 1);
}

ComputeFault ComputePopulation::at(std::uint64_t index) const {
  if (index >= size()) fail(ErrorCode::internal, "member {} of {} in computed numbers", index, size());
  ComputeFault fault = first_;
  fault.step = full_steps_.at(steps_before_ + static_cast<std::int64_t>(index % steps_));
  const std::uint64_t place = index / steps_;
  const Tensor& tensor = tensor_of(index);
  const std::uint64_t here = place - tensor.before * replicas_;
  fault.tensor = tensor.name;
  fault.micro_batch = static_cast<std::int64_t>(here % tensor.passes);
  fault.replica = static_cast<std::int64_t>(here / tensor.passes % replicas_);
  const std::uint64_t cell = here / tensor.passes / replicas_;
  fault.element = static_cast<std::int64_t>(cell / tensor.each);
  const std::uint64_t bit =
      tickets_ > 0 ? random_below(key_of(index), 2, 0, tensor.bits.size()) : cell % tensor.each;
  fault.bit = static_cast<int>(tensor.bits[bit]);
  return fault;
}

bool landed(const std::vector<ComputeFault>& faults, const RunEnd& end) {
  if (!end.result || end.result->altered_values.size() != faults.size()) return false;
  return std::ranges::all_of(end.result->altered_values, [&](const record::AlteredValue& altered) {
    return altered.times >= 1 && std::ranges::count(faults, altered.fault) == 1 &&
           altered.new_pattern == pattern_after(altered.fault, altered.dtype, altered.old_pattern);
  });
}

}  // namespace bitrift::design
