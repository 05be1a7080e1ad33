// The checkpoints from which a campaign starts (docs/spec.md, "base").
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "spec/training_spec.h"

namespace bitrift::record {

/// One checkpoint: trained for the campaign, or a ready file.
struct BaseSpec {
  std::string name = {};                                 ///< "" when it is the only one
  std::optional<TrainingSpec> train = {};                ///< exactly one of train and checkpoint
  std::optional<std::filesystem::path> checkpoint = {};  ///< absolute, resolved against the spec's folder
  double min_test_accuracy = 0;  ///< the golden runs must reach this, otherwise the campaign refuses to start
};

/// A tensor that a script does not load: altering it changes nothing in the loaded state.
struct UnreadTensor {
  std::string tensor;
  std::string role;
};

/// A file in the campaign's folder from which arms resume: a base, unchanged or in another precision.
struct BaseFile {
  std::size_t base = 0;        ///< index of its BaseSpec
  std::string precision = {};  ///< "": as it was trained
  std::string stem = "base";  ///< of the file's name: base | base-NAME | base-PRECISION | base-NAME-PRECISION
  /// Its tensors that are in no population, sorted; absent: not looked for. Not part of the canonical form.
  std::optional<std::vector<UnreadTensor>> unread = {};
  /// Weights of its model at both ends of their natural order on which no evaluation of the script depends:
  /// no canary alters them. Not part of the canonical form.
  std::vector<std::string> unused = {};
};

/// The end of a checkpoint's name that its copies keep, because readers look at it: the longest of
/// kept_extensions(); "" for other folders and for indexes of folders, ".h5" for other files.
[[nodiscard]] std::string_view kept_extension(const std::filesystem::path& checkpoint);
/// All of these, ".h5" first.
[[nodiscard]] std::span<const std::string_view> kept_extensions();

/// Reads the value at /base of a document that obeys the schema: one object, or a list of named ones. Throws
/// Error(bad_input) with file, line and key.
[[nodiscard]] std::vector<BaseSpec> bases_from(const Document& document);
/// For a spec as the user wrote it; a campaign in canonical form has its own copies. Throws Error(not_found)
/// with the name of the first missing checkpoint.
void check_bases_exist(const Document& document, const std::vector<BaseSpec>& bases);
[[nodiscard]] Json to_json(const std::vector<BaseSpec>& bases);

}  // namespace bitrift::record
