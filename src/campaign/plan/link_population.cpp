#include "campaign/plan/link_population.h"

#include "core/error.h"

namespace bitrift::campaign {
namespace {

using record::FailedLink;
using record::LinkFailure;

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

std::int64_t steps_of_run(const record::LinkStrata& strata, std::int64_t epochs) {
  if (!strata.steps_per_epoch)
    fail(ErrorCode::bad_input, "how many steps a run takes is not known before the campaign has begun");
  return *strata.steps_per_epoch * epochs;
}

LinkPopulation::LinkPopulation(LinkFailure kind, const record::LinkStrata& strata,
                               const record::MeshSpec& mesh, std::int64_t epochs)
    : delay_(kind == LinkFailure::slow ? strata.delay : 0), links_(links_of(kind, mesh)) {
  const std::int64_t length = steps_of_run(strata, epochs);
  const record::StepRange range = strata.steps.value_or(record::StepRange{1, length});
  if (range.last > length) {
    fail(ErrorCode::bad_input,
         "strata.link.steps names step {}, but a run takes {} steps ({} an epoch): name steps of 1 to {}, or "
         "raise resume.epochs",
         range.last, length, *strata.steps_per_epoch, length);
  }
  first_step_ = range.first;
  steps_ = static_cast<std::uint64_t>(range.last - range.first + 1);
}

FailedLink LinkPopulation::at(std::uint64_t index) const {
  if (index >= size()) fail(ErrorCode::internal, "link failure {} of {}", index, size());
  FailedLink link = links_[index / steps_];
  link.step = first_step_ + static_cast<std::int64_t>(index % steps_);
  link.delay = delay_;
  return link;
}

FailedLink canary_link(record::FailedLinkCanary canary, const record::LinkStrata& strata,
                       const record::MeshSpec& mesh, std::int64_t epochs) {
  const std::int64_t length = steps_of_run(strata, epochs);
  FailedLink link = links_of(LinkFailure::slow, mesh).front();
  link.step = canary == record::FailedLinkCanary::unreached ? length + 1 : (length + 1) / 2;
  link.delay = strata.delay;
  return link;
}

}  // namespace bitrift::campaign
