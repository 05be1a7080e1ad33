#include "train/fault/link_failures.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/number/median.h"

namespace bitrift::train {

using record::FailedLink;
using record::LinkReport;

namespace {

std::optional<double> median_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  return median(values);
}

}  // namespace

void LinkFailures::arm(std::vector<FailedLink> links) {
  links_ = std::move(links);
  late_.assign(links_.size(), 0);
  step_ = 0;
  took_.clear();
}

std::vector<FailedLink> LinkFailures::failed() const {
  std::vector<FailedLink> found;
  std::ranges::copy_if(links_, std::back_inserter(found),
                       [this](const FailedLink& link) { return link.step <= step_; });
  return found;
}

void LinkFailures::count(const FailedLink& link) {
  const auto found = std::ranges::find(links_, link);
  if (found == links_.end())
    fail(ErrorCode::internal, "a message was late on the link {}, which is not slow in this run",
         to_text(link));
  ++late_[static_cast<std::size_t>(found - links_.begin())];
}

void LinkFailures::took(double seconds) {
  if (any()) took_.emplace_back(step_, seconds);
}

void LinkFailures::note_times(record::RunResult& result) const {
  for (LinkReport& report : result.failed_links) {
    std::vector<double> before, behind;
    for (const auto& [step, seconds] : took_) (step < report.link.step ? before : behind).push_back(seconds);
    report.step_seconds_before = median_of(std::move(before));
    report.step_seconds_behind = median_of(std::move(behind));
  }
}

void LinkFailures::gather(const mpi::Communicator& ranks, record::RunResult& result) const {
  if (links_.empty()) return;
  std::vector<std::int64_t> all(late_.size() * static_cast<std::size_t>(ranks.size()));
  ranks.allgather_equal(late_.data(), late_.size() * sizeof(std::int64_t), all.data());
  for (LinkReport& report : result.failed_links) {
    const auto link = static_cast<std::size_t>(std::ranges::find(links_, report.link) - links_.begin());
    report.delayed = 0;
    for (std::size_t i = link; i < all.size(); i += late_.size()) report.delayed += all[i];
  }
  note_times(result);
}

std::vector<FailedLink> LinkFailures::missing(const record::RunResult& result) const {
  std::vector<FailedLink> found;
  std::ranges::copy_if(links_, std::back_inserter(found), [&](const FailedLink& link) {
    return std::ranges::find(result.failed_links, link, &LinkReport::link) == result.failed_links.end();
  });
  return found;
}

}  // namespace bitrift::train
