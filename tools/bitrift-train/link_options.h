// The options that say what links of a mesh do to messages of gradients.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "record/fault/failed_link.h"
#include "record/fault/link_fault.h"
#include "record/recovery.h"
#include "spec/parallel.h"
#include "spec/training_spec.h"

namespace bitrift::nn {
class Dataset;
}

namespace bitrift::cli {

struct LinkArguments {
  std::vector<std::string> flips, kills, slow;
};

void add_link_options(CLI::App* command, LinkArguments& arguments);

/// What links are to do in a run.
struct LinkPlan {
  std::vector<record::LinkFault> flips = {};
  std::vector<record::FailedLink> failures = {};
};

/// As far as texts and strategy tell: check_links() looks at the rest. Throws Error(bad_input) for texts that
/// are not faults, a run without a mesh, links that it does not have, and altered messages in a run that
/// plans others on the way.
[[nodiscard]] LinkPlan chosen_links(const LinkArguments& arguments, const record::Parallel& parallel,
                                    record::RecoveryKind recovery);
/// Throws Error(bad_input) for messages and steps that a run does not have. steps: that it takes.
/// Planning a schedule takes a while, so only runs whose messages are altered look for them.
void check_links(const LinkPlan& links, const record::TrainingSpec& spec, const record::Parallel& parallel,
                 const nn::Dataset& data, std::int64_t steps);

}  // namespace bitrift::cli
