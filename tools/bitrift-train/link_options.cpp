#include "link_options.h"

#include <algorithm>

#include "core/error.h"
#include "record/fault/message_map.h"
#include "train/describe/describe.h"

namespace bitrift::cli {

using record::LinkFailure;
using record::RecoveryKind;

namespace {

const char* option_of(LinkFailure kind) { return kind == LinkFailure::dead ? "--kill-link" : "--slow-link"; }

std::vector<record::LinkFault> chosen_flips(const LinkArguments& arguments, RecoveryKind recovery) {
  std::vector<record::LinkFault> faults;
  for (const std::string& text : arguments.flips) {
    const record::LinkFault fault = record::link_fault_from_text(text);
    if (std::ranges::find(faults, fault) != faults.end())
      fail(ErrorCode::bad_input, "--flip-message {}: given twice, which would flip the bit back", text);
    faults.push_back(fault);
  }
  if (faults.empty()) return faults;
  if (recovery != RecoveryKind::none)
    fail(ErrorCode::bad_input,
         "--flip-message cannot be combined with --on-failure {}: a recovery plans other messages",
         name_of(recovery));
  if (!arguments.kills.empty())
    fail(ErrorCode::bad_input,
         "--flip-message cannot be combined with --kill-link: without the link, other messages are planned");
  return faults;
}

void check_link(const record::FailedLink& link, const record::Parallel& parallel, const std::string& text) {
  const comm::Topology& mesh = parallel.mesh->topology;
  const char* const option = option_of(link.kind);
  for (const record::ChipPlace& chip : {link.one, link.other}) {
    if (chip.row >= mesh.rows() || chip.column >= mesh.columns())
      fail(ErrorCode::bad_input, "{} {}: the mesh of {}x{} has no chip in row {}, column {}", option, text,
           mesh.rows(), mesh.columns(), chip.row, chip.column);
    const int number = record::chip_at(mesh, chip);
    if (!mesh.alive(number))
      fail(ErrorCode::bad_input, "{} {}: {} is dead from the beginning", option, text, mesh.name(number));
  }
  const auto [one, other] = record::ends_of(mesh, link);
  if (!mesh.linked(one, other))
    fail(ErrorCode::bad_input, "{} {}: no live link joins {} and {}; name two neighbours", option, text,
         mesh.name(one), mesh.name(other));
}

void choose_failures(LinkFailure kind, const std::vector<std::string>& texts,
                     const record::Parallel& parallel, std::vector<record::FailedLink>& found) {
  for (const std::string& text : texts) {
    record::FailedLink link;
    try {
      link = record::failed_link_from_text(kind, text);
    } catch (const Error& error) {
      fail(error.code(), "{} {}", option_of(kind), error.what());
    }
    check_link(link, parallel, text);
    const auto same = [&](const record::FailedLink& one) {
      return one.kind == link.kind && one.one == link.one && one.other == link.other;
    };
    if (std::ranges::any_of(found, same))
      fail(ErrorCode::bad_input, "{} {}: this link is named twice; name it once", option_of(kind), text);
    found.push_back(link);
  }
}

}  // namespace

void add_link_options(CLI::App* command, LinkArguments& arguments) {
  command->add_option(
      "--flip-message", arguments.flips,
      "SEND@STEP:BUCKET.ELEMENT.BIT: on a mesh, this bit of this message of gradients arrives "
      "flipped in this step of the run (from 1), such as 12@5:0.3.30; repeatable");
  command->add_option(
      "--kill-link", arguments.kills,
      "ROW,COLUMN-ROW,COLUMN@STEP: the link between these neighbours on the mesh is dead from the start of "
      "this step of the run (from 1) on, such as 0,1-0,2@5; needs --on-failure to continue; repeatable");
  command->add_option(
      "--slow-link", arguments.slow,
      "ROW,COLUMN-ROW,COLUMN@STEP:SECONDS: on the mesh, each message over this link is so many seconds late "
      "from this step of the run (from 1) on, such as 0,1-0,2@5:0.002; repeatable");
}

LinkPlan chosen_links(const LinkArguments& arguments, const record::Parallel& parallel,
                      RecoveryKind recovery) {
  LinkPlan plan;
  plan.flips = chosen_flips(arguments, recovery);
  if (!parallel.mesh) {
    if (!plan.flips.empty())
      fail(ErrorCode::bad_input, "--flip-message {}: only on a mesh are messages planned; add --mesh",
           arguments.flips.front());
    for (const LinkFailure kind : {LinkFailure::dead, LinkFailure::slow}) {
      const auto& texts = kind == LinkFailure::dead ? arguments.kills : arguments.slow;
      if (!texts.empty())
        fail(ErrorCode::bad_input, "{} {}: only a mesh has links; add --mesh", option_of(kind),
             texts.front());
    }
    return plan;
  }
  choose_failures(LinkFailure::dead, arguments.kills, parallel, plan.failures);
  choose_failures(LinkFailure::slow, arguments.slow, parallel, plan.failures);
  return plan;
}

void check_links(const LinkPlan& links, const record::TrainingSpec& spec, const record::Parallel& parallel,
                 const nn::Dataset& data, std::int64_t steps) {
  const auto check_step = [steps](const char* option, const std::string& text, std::int64_t step) {
    if (step > steps)
      fail(ErrorCode::bad_input, "{} {}: there is no step {}; the run takes {}", option, text, step, steps);
  };
  for (const record::FailedLink& link : links.failures)
    check_step(option_of(link.kind), to_text(link), link.step);
  if (links.flips.empty()) return;
  const record::MessageMap map = train::messages_of(spec, parallel, data);
  for (const record::LinkFault& fault : links.flips) {
    try {
      record::check_exists(fault, map);
    } catch (const Error& error) {
      fail(error.code(), "--flip-message {}", error.what());
    }
    check_step("--flip-message", to_text(fault), fault.step);
  }
}

}  // namespace bitrift::cli
