#include "record/fault/fault_list.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <utility>

namespace bitrift::record {

std::string common_field(const NumberFormat& format, std::uint64_t bits) {
  std::string field;
  for (; bits != 0; bits &= bits - 1) {
    const std::string one = field_of_bit(format, static_cast<unsigned>(std::countr_zero(bits)));
    if (!field.empty() && field != one) return "mixed";
    field = one;
  }
  return field;
}

AppliedFault FaultList::at(std::size_t i) const {
  const ElementChange& change = changes.at(i);
  const FaultSite& site = sites.at(change.site);
  AppliedFault fault = {.tensor = site.tensor,
                        .role = site.role,
                        .element = change.element,
                        .dtype = site.dtype,
                        .bits = {},
                        .field = {},
                        .old_pattern = change.old_pattern,
                        .new_pattern = change.new_pattern,
                        .plane = site.plane,
                        .structure = site.structure};
  fault.bits.reserve(static_cast<std::size_t>(std::popcount(change.bits)));
  for (std::uint64_t bits = change.bits; bits != 0; bits &= bits - 1) {
    fault.bits.push_back(static_cast<unsigned>(std::countr_zero(bits)));
  }
  const auto format = number_format(site.dtype);
  if (format && !names_byte(site.plane, site.structure)) fault.field = common_field(*format, change.bits);
  return fault;
}

std::vector<AppliedFault> FaultList::expanded() const {
  std::vector<AppliedFault> faults;
  faults.reserve(changes.size());
  for (std::size_t i = 0; i < changes.size(); ++i) faults.push_back(at(i));
  return faults;
}

void FaultList::append(const AppliedFault& fault) {
  FaultSite site = {fault.tensor, fault.role, fault.dtype, fault.plane, fault.structure};
  if (sites.empty() || sites.back() != site) sites.push_back(std::move(site));
  ElementChange change = {static_cast<std::uint32_t>(sites.size() - 1), fault.element, 0, fault.old_pattern,
                          fault.new_pattern};
  for (const unsigned bit : fault.bits) change.bits |= std::uint64_t{1} << bit;
  changes.push_back(change);
}

void FaultList::drop_unused_sites() {
  std::vector<FaultSite> used;
  std::vector<std::optional<std::uint32_t>> place(sites.size());
  for (ElementChange& change : changes) {
    std::optional<std::uint32_t>& to = place.at(change.site);
    if (!to) {
      to = static_cast<std::uint32_t>(used.size());
      used.push_back(std::move(sites[change.site]));
    }
    change.site = *to;
  }
  sites = std::move(used);
}

FaultList compact(const std::vector<AppliedFault>& faults) {
  FaultList list;
  for (const AppliedFault& fault : faults) list.append(fault);
  return list;
}

std::uint64_t unchanged(const FaultList& list) noexcept {
  return static_cast<std::uint64_t>(
      std::count_if(list.changes.begin(), list.changes.end(),
                    [](const ElementChange& one) { return one.old_pattern == one.new_pattern; }));
}

}  // namespace bitrift::record
