// What a run meets: altered bits, or ranks that fail.
#pragma once

#include <cstddef>
#include <variant>
#include <vector>

#include "record/fault/fault_list.h"
#include "record/fault/process_fault.h"
#include "record/json/json.h"

namespace bitrift::record {

/// Faults of one kind: bits that were altered in the file, or processes that fail on the way.
class Faults {
 public:
  Faults() = default;  ///< no altered bit
  Faults(FaultList bits) : faults_(std::move(bits)) {}
  Faults(std::vector<ProcessFault> process) : faults_(std::move(process)) {}

  [[nodiscard]] bool of_processes() const noexcept {
    return std::holds_alternative<std::vector<ProcessFault>>(faults_);
  }
  /// Empty where processes fail.
  [[nodiscard]] const FaultList& bits() const noexcept;
  /// To add to; what was there of another kind is dropped.
  [[nodiscard]] FaultList& bits();
  /// Empty where bits are altered.
  [[nodiscard]] const std::vector<ProcessFault>& processes() const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return bits().size() + processes().size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  bool operator==(const Faults&) const = default;

 private:
  std::variant<FaultList, std::vector<ProcessFault>> faults_;
};

/// A list: of an altered element its keys, of a process {"process": {...}}.
[[nodiscard]] Json to_json(const Faults& faults);
/// Throws Error(bad_file) when the list mixes both.
[[nodiscard]] Faults faults_from_json(const Json& value);

}  // namespace bitrift::record
