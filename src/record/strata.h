// What is hit: the strata of a campaign (docs/spec.md, "strata").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/fault/fault.h"
#include "record/fault/link_strata.h"
#include "record/fault/process_strata.h"
#include "record/fault/wire_strata.h"
#include "record/trial.h"

namespace bitrift::record {

/// A fault model as a stratum of its own: every draw is a set of faults.
struct StratumModel {
  std::string name;
  FaultModel model;  ///< its seed is redrawn for every trial
};

/// What the faults of a campaign are.
enum class StrataKind {
  bits,     ///< of tensors, one in each fault
  models,   ///< sets of faults in the file
  process,  ///< ranks that fail
  wire,     ///< bits of messages
  link,     ///< links that fail
};

/// The targeted bits, cut into (role) x (bit field) cells, or a list of fault models, or ranks that fail, or
/// links that alter messages or fail. Exactly one of the five.
struct StrataSpec {
  std::vector<std::string> tensors;  ///< globs; empty: all
  std::vector<std::string> roles;
  std::vector<std::string>
      fields;  ///< sign | exponent | mantissa | exponent_msb | range | list; must not overlap
  std::vector<StratumModel> models;
  std::optional<ProcessStrata> process = {};
  std::optional<WireStrata> wire = {};
  std::optional<LinkStrata> link = {};
  [[nodiscard]] StrataKind kind() const noexcept;
  /// Whether each draw is one bit of one element, so that strata have layers, tensors and bits.
  [[nodiscard]] bool of_bits() const noexcept { return kind() == StrataKind::bits; }
};

/// Size of a stratum whose faults are no list that could be used up: sets of faults are drawn independently
/// of each other. The largest population that intervals are computed for: with it they are those of draws
/// with replacement.
inline constexpr std::uint64_t unbounded_stratum = std::uint64_t{1} << 52;

/// The strata in their order, sizes not filled in. A model's role lists its roles with '+' ("any" without),
/// its field is its bits. A phase in which ranks fail has the role process and itself as field. Messages have
/// their kind as role. Failing links have the role link and their kind as field.
[[nodiscard]] std::vector<Stratum> strata_of(const StrataSpec& spec);

/// Reads the value at /strata of a document that obeys the schema. Throws Error(bad_input) with file, line
/// and key: fields that are none or overlap, doubled names, none or several of the five forms.
[[nodiscard]] StrataSpec strata_from(const Document& document);
[[nodiscard]] Json to_json(const StrataSpec& strata);

}  // namespace bitrift::record
