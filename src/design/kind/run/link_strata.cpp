#include "design/kind/run/link_strata.h"

#include <algorithm>

#include "core/error.h"
#include "design/kind/run/recoveries.h"
#include "record/fault/message_map.h"

namespace bitrift::design {
namespace {

using record::FailedLink;
using record::Json;
using record::LinkFailure;
using record::RecoveryKind;

enum class LinkCanary { unreached, slow };
constexpr EnumNames<2> names_of(LinkCanary) {
  return {"canary", {"canary:failure-unreached", "canary:slow-link"}};
}

std::vector<FailedLink> links_of(LinkFailure kind, const record::MeshSpec& mesh) {
  std::vector<FailedLink> links;
  for (const auto& [one, other] : mesh.topology.links()) {
    if (one < other)
      links.push_back({.kind = kind,
                       .one = record::place_of(mesh.topology, one),
                       .other = record::place_of(mesh.topology, other)});
  }
  if (links.empty()) fail(ErrorCode::bad_input, "the mesh has no live link");
  return links;
}

}  // namespace

Json LinkStrata::to_json() const {
  Json value = {{"kinds", kinds}, {"delay", delay}};
  if (steps) value["steps"] = design::to_json(*steps);
  if (steps_per_epoch) value["steps_per_epoch"] = *steps_per_epoch;
  return {{"link", value}};
}

std::vector<record::Stratum> LinkStrata::strata() const {
  std::vector<record::Stratum> list;
  for (const LinkFailure kind : kinds)
    list.push_back({fmt::format("link.{}", name_of(kind)), "link", name_of(kind), 0});
  return list;
}

void LinkStrata::check(const record::Document& document, const std::vector<record::Parallel>& arms,
                       const std::vector<record::RecoverySpec>& recoveries) const {
  refuse_key(document, "/runner", "only bitrift-train has links that fail; remove the key, or strata.link");
  refuse_key(document, "/propagation",
             "follows bits that are altered in a file, and links alter none; remove the key");
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const std::string arm = pointer_of_arm(i);
    refuse_key(document, arm + "/scope",
               "says who loads an altered file, and links alter none; remove the key");
    if (!arms[i].mesh)
      refuse_key(document, arm + "/parallel", "only a mesh has links; name one (docs/mesh.md)");
    if (arms[i].mesh->topology != arms.front().mesh->topology) {
      refuse_key(document, arm + "/parallel",
                 "has another mesh than the first arm: every link must exist in every arm; use one campaign "
                 "for each mesh");
    }
    const RecoveryKind kind = recoveries[i].kind;
    if (kind != RecoveryKind::none && kind != RecoveryKind::shrink) {
      refuse_key(document, arm + "/recovery",
                 fmt::format("{}: no rank fails, so with every kind but none only the schedule is planned "
                             "again; give none or shrink",
                             name_of(kind)));
    }
  }
}

std::unique_ptr<const Population> LinkStrata::population(std::size_t index, const Setting& setting) const {
  return std::make_unique<LinkPopulation>(kinds.at(index), *this, setting.parallel.mesh.value(),
                                          setting.epochs);
}

std::optional<FactNeeded> LinkStrata::fact_needed() const {
  return FactNeeded{"messages", "/strata/link/steps_per_epoch", "how many steps an epoch has",
                    "the steps of an epoch"};
}

std::optional<Json> LinkStrata::fact() const {
  return steps_per_epoch ? std::optional(Json(*steps_per_epoch)) : std::nullopt;
}

Strata LinkStrata::with_fact(const Json& fact) const {
  LinkStrata known = *this;
  known.steps_per_epoch =
      fact.is_number() ? fact.get<std::int64_t>() : record::message_map_from_json(fact).steps_per_epoch;
  return known;
}

std::optional<std::int64_t> LinkStrata::steps_of_run(std::int64_t epochs) const {
  return steps_per_epoch ? std::optional(*steps_per_epoch * epochs) : std::nullopt;
}

std::vector<Canary> LinkStrata::canaries(const record::RecoverySpec&) const {
  return {{name_of(LinkCanary::unreached), "a link is to be slow from a step after the end of the run on",
           Required::bitwise, false, "a link failed that was not to"},
          {name_of(LinkCanary::slow), "a link is slow from the middle of the run on", Required::bitwise, true,
           "the link that was to be slow was not"}};
}

void LinkStrata::plant(const std::string& stratum, const Setting& setting, const record::RecoverySpec&,
                       record::TrialSpec& run) const {
  const bool reached = parse_named<LinkCanary>(stratum) == LinkCanary::slow;
  FailedLink link = links_of(LinkFailure::slow, setting.parallel.mesh.value()).front();
  link.step = canary_step(steps_of_run(setting.epochs).value(), reached);
  link.delay = delay;
  run.faults = std::vector{link};
}

Sentences LinkStrata::sentences(const std::optional<std::uint64_t>& size) const {
  std::vector<std::string> names;
  for (const LinkFailure kind : kinds) {
    names.push_back(kind == LinkFailure::dead ? "dead"
                                              : fmt::format("slow by {:g} s for each message", delay));
  }
  Sentences said;
  said.faults[""] =
      fmt::format("the failure of a link ({}), chosen uniformly from the {}combinations of {}links and {}",
                  in_words(names, "or"), size_text(size), names.size() > 1 ? "kinds of failure, " : "",
                  steps_text(steps));
  said.rates = rate_of_uniform("failure", "combinations of links and steps");
  said.limits = {
      "The rates are those of one link that fails in both directions, from the start of a step until the end "
      "of the run. They say nothing about several links, other delays, lost or altered messages, or faults "
      "in "
      "checkpoints."};
  if (std::ranges::find(kinds, LinkFailure::dead) != kinds.end()) {
    said.limits.emplace_back(
        "All ranks know when a link dies: how chips would detect it, and how long that would take, is not "
        "simulated.");
  }
  said.no_map = "Links fail and no tensor is altered, so there are no rates by layer and bit.";
  said.numbers = false;
  return said;
}

std::string LinkStrata::no_rates_by(const std::string&) const {
  return "in this campaign links fail and no tensor is altered; group by field, which is the kind of failure";
}

Strata link_strata_from(const record::Document& document) {
  const Json& value = document.value.at("strata").at("link");
  LinkStrata strata;
  strata.kinds = value.value("kinds", strata.kinds);
  strata.steps = step_range_from(document, "/strata/link/steps");
  strata.delay = value.value("delay", strata.delay);
  if (value.contains("steps_per_epoch"))
    strata.steps_per_epoch = value["steps_per_epoch"].get<std::int64_t>();
  return strata;
}

LinkPopulation::LinkPopulation(LinkFailure kind, const LinkStrata& strata, const record::MeshSpec& mesh,
                               std::int64_t epochs)
    : delay_(kind == LinkFailure::slow ? strata.delay : 0), links_(links_of(kind, mesh)) {
  if (!strata.steps_per_epoch)
    fail(ErrorCode::bad_input, "how many steps a run takes is not known before the campaign has begun");
  const StepRange range = drawn_steps(strata.steps, *strata.steps_per_epoch, epochs, "strata.link.steps");
  first_step_ = range.first;
  steps_ = range.count();
}

FailedLink LinkPopulation::at(std::uint64_t index) const {
  if (index >= size()) fail(ErrorCode::internal, "link failure {} of {}", index, size());
  FailedLink link = links_[index / steps_];
  link.step = first_step_ + static_cast<std::int64_t>(index % steps_);
  link.delay = delay_;
  return link;
}

bool landed(const std::vector<FailedLink>& links, const RunEnd& end) {
  return end.result && std::ranges::equal(end.result->failed_links, links, {}, &record::LinkReport::link);
}

}  // namespace bitrift::design
