// What `bitrift inject` prints.
#pragma once

#include <string>

#include "inject/manifest/manifest.h"

namespace bitrift::cli {

struct InjectReport {
  bool dry_run = false, in_place = false, json = false, replayed = false;
  std::string written;  ///< the altered file
};

/// Prints the injection as a table or as JSON.
void report_injection(const InjectReport& report, const inject::Manifest& manifest);

}  // namespace bitrift::cli
