#include "inject/fault_list.h"

#include <algorithm>
#include <bit>

#include "core/error.h"

namespace bitrift::inject {

std::string common_field(const NumberFormat& format, std::uint64_t bits) {
  std::string field;
  for (; bits != 0; bits &= bits - 1) {
    const std::string one = field_of_bit(format, static_cast<unsigned>(std::countr_zero(bits)));
    if (!field.empty() && field != one) return "mixed";
    field = one;
  }
  return field;
}

record::AppliedFault FaultList::at(std::size_t i) const {
  const Change& change = changes.at(i);
  const FaultSite& site = sites.at(change.site);
  record::AppliedFault fault = {.tensor = site.tensor,
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
  if (!record::names_byte(site.plane, site.structure))
    fault.field = common_field(number_format(site.dtype).value(), change.bits);
  return fault;
}

std::vector<record::AppliedFault> FaultList::expanded() const {
  std::vector<record::AppliedFault> faults;
  faults.reserve(changes.size());
  for (std::size_t i = 0; i < changes.size(); ++i) faults.push_back(at(i));
  return faults;
}

void append(FaultList& list, const record::AppliedFault& fault) {
  FaultSite site = {fault.tensor, fault.role, fault.dtype, fault.plane, fault.structure};
  if (list.sites.empty() || list.sites.back() != site) list.sites.push_back(std::move(site));
  Change change = {static_cast<std::uint32_t>(list.sites.size() - 1), fault.element, 0, fault.old_pattern,
                   fault.new_pattern};
  for (const unsigned bit : fault.bits) change.bits |= std::uint64_t{1} << bit;
  list.changes.push_back(change);
}

FaultList compact(const std::vector<record::AppliedFault>& faults) {
  FaultList list;
  for (const record::AppliedFault& fault : faults) append(list, fault);
  return list;
}

std::uint64_t unchanged(const FaultList& list) noexcept {
  return static_cast<std::uint64_t>(
      std::count_if(list.changes.begin(), list.changes.end(),
                    [](const Change& one) { return one.old_pattern == one.new_pattern; }));
}

}  // namespace bitrift::inject
