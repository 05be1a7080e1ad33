// The fault manifest: what was changed, and from what it was drawn; enough to repeat it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "inject/draw/fault_plan.h"
#include "record/fault/fault.h"
#include "record/json/json.h"

namespace bitrift::inject {

struct Manifest {
  std::string base_path;         ///< the unaltered file as the user named it, for messages
  std::string base_digest;       ///< digest_file of the unaltered file
  std::uint64_t base_bytes = 0;  ///< its size; 0: not known
  record::FaultModel model;
  Plan plan;
  record::Json provenance;  ///< record::provenance() of the program that drew the faults
  /// The file holds no list of faults, only their origin: drawing again produces them.
  bool compact = false;
  /// For a compact manifest that was read: what a new draw must give; see faults_digest().
  std::uint64_t fault_count = 0;
  std::string fault_digest;
};

/// One fault as people and programs read it: AppliedFault plus `msb_first_bits` (the same bits counted from
/// the most significant one) and the values before and after as text.
[[nodiscard]] record::Json describe_fault(const record::AppliedFault& fault);
/// A bit pattern as text: an integer exactly, a floating value with as many digits as distinguish it from its
/// neighbours, "nan", "inf".
[[nodiscard]] std::string value_text(const std::string& dtype, std::uint64_t pattern);

/// Notes a file as the base: path, digest and size. Throws Error(not_found | io).
void set_base(Manifest& manifest, const std::filesystem::path& file);

/// Also reads the schema "bitrift/fault-manifest/2", which has no tensors and no size of the base, and
/// "bitrift/fault-manifest/1", which has no strata either. A compact one has no faults. Throws
/// Error(not_found | bad_file | bad_input) with file, line and key.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& path);
/// The same of a text; messages name it `source`.
[[nodiscard]] Manifest manifest_of_text(const std::string& text, const std::string& source);
/// The fault model at a JSON pointer of a document ("" for the whole of it), which has passed the schema.
/// Throws Error(bad_input) when its seed is negative, which the schema cannot exclude for 64-bit numbers.
[[nodiscard]] record::FaultModel fault_model_from(const record::Document& document,
                                                  const std::string& pointer);

}  // namespace bitrift::inject
