// Drawn faults in little memory: what they share is stored once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/number/number_format.h"
#include "record/fault/fault.h"

namespace bitrift::inject {

/// What the faults of one tensor share.
struct FaultSite {
  std::string tensor;
  std::string role;
  std::string dtype;  ///< name of the format that its bits are read as
  record::Plane plane = record::Plane::value;
  std::string structure = {};  ///< see record::AppliedFault
  bool operator==(const FaultSite&) const = default;
};

/// One altered element. `bits` are those that the fault is at, as a mask.
struct Change {
  std::uint32_t site = 0;  ///< index into FaultList::sites
  std::uint64_t element = 0;
  std::uint64_t bits = 0;
  std::uint64_t old_pattern = 0;
  std::uint64_t new_pattern = 0;
  bool operator==(const Change&) const = default;
};

struct FaultList {
  std::vector<FaultSite> sites;
  std::vector<Change> changes;  ///< by site, then element; one an element

  /// The i-th fault with all that it carries.
  [[nodiscard]] record::AppliedFault at(std::size_t i) const;
  /// All of them.
  [[nodiscard]] std::vector<record::AppliedFault> expanded() const;
  bool operator==(const FaultList&) const = default;
};

/// Adds a fault behind the others.
void append(FaultList& list, const record::AppliedFault& fault);
/// The inverse of expanded(); keeps the order.
[[nodiscard]] FaultList compact(const std::vector<record::AppliedFault>& faults);

/// `sign`, `exponent`, `mantissa`, or `mixed` where the bits lie in several; "" without a bit.
[[nodiscard]] std::string common_field(const NumberFormat& format, std::uint64_t bits);

/// Number of faults that change nothing.
[[nodiscard]] std::uint64_t unchanged(const FaultList& list) noexcept;

}  // namespace bitrift::inject
