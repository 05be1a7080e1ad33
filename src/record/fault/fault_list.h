// Drawn faults in little memory: their common properties are stored once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/number/number_format.h"
#include "record/fault/fault.h"

namespace bitrift::record {

/// What the faults of one tensor have in common.
struct FaultSite {
  std::string tensor;
  std::string role;
  std::string dtype;  ///< name of the format as which its bits are read
  Plane plane = Plane::value;
  std::string structure = {};  ///< see AppliedFault
  bool operator==(const FaultSite&) const = default;
};

/// One altered element. `bits` are the altered bits, as a mask.
struct ElementChange {
  std::uint32_t site = 0;  ///< index into FaultList::sites
  std::uint64_t element = 0;
  std::uint64_t bits = 0;
  std::uint64_t old_pattern = 0;
  std::uint64_t new_pattern = 0;
  bool operator==(const ElementChange&) const = default;
};

struct FaultList {
  std::vector<FaultSite> sites;
  std::vector<ElementChange> changes;  ///< by site, then element; one entry for each element

  [[nodiscard]] std::size_t size() const noexcept { return changes.size(); }
  [[nodiscard]] bool empty() const noexcept { return changes.empty(); }
  /// The i-th fault with all its properties; if the format is unknown, `field` is "".
  [[nodiscard]] AppliedFault at(std::size_t i) const;
  /// All of them.
  [[nodiscard]] std::vector<AppliedFault> expanded() const;
  /// Adds a fault after the others. Its bits must be below 64.
  void append(const AppliedFault& fault);
  /// Removes the sites without a fault.
  void drop_unused_sites();
  bool operator==(const FaultList&) const = default;
};

/// The inverse of expanded(); keeps the order.
[[nodiscard]] FaultList compact(const std::vector<AppliedFault>& faults);

/// The field that holds the bits: `sign`, `exponent` or `mantissa`; `mixed` for several fields, "" for no
/// bit.
[[nodiscard]] std::string common_field(const NumberFormat& format, std::uint64_t bits);

/// Number of faults that change nothing.
[[nodiscard]] std::uint64_t unchanged(const FaultList& list) noexcept;

}  // namespace bitrift::record
