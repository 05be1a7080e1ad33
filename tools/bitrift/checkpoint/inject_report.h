// What `bitrift inject` prints.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "inject/manifest/manifest.h"

namespace bitrift::cli {

struct InjectReport {
  bool dry_run = false, in_place = false, json = false, replayed = false;
  std::string written;                     ///< the altered file
  std::vector<ckpt::TensorInfo> left_out;  ///< they cannot be altered, and nobody asked for them
  std::map<std::string, std::string>
      aliases;  ///< of the altered tensors those that are, and what they stand for
  /// The file that each fault is in, if the checkpoint has several.
  std::vector<std::string> files;
};

/// For InjectReport::aliases.
[[nodiscard]] std::map<std::string, std::string> altered_aliases(const ckpt::Reader& reader,
                                                                 const inject::Manifest& manifest);

/// For InjectReport::files.
[[nodiscard]] std::vector<std::string> altered_files(const ckpt::Reader& reader,
                                                     const inject::Manifest& manifest);

/// Prints the injection as a table or as JSON.
void report_injection(const InjectReport& report, const inject::Manifest& manifest);

}  // namespace bitrift::cli
