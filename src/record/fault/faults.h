// The faults of a run: altered bits, ranks that fail, faults of links (messages that arrive altered, and
// links that fail), or faults while computing.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "record/fault/compute_fault.h"
#include "record/fault/failed_link.h"
#include "record/fault/fault_list.h"
#include "record/fault/link_fault.h"
#include "record/fault/process_fault.h"
#include "record/json/json.h"

namespace bitrift::record {

/// Faults of one kind: bits that were altered in the file; or, during the run, processes that fail, messages
/// that arrive altered, links that fail, or numbers that flip while they are computed.
class Faults {
 public:
  Faults() = default;  ///< no altered bit
  Faults(FaultList bits) : faults_(std::move(bits)) {}
  Faults(std::vector<ProcessFault> process) : faults_(std::move(process)) {}
  Faults(std::vector<LinkFault> links) : faults_(std::move(links)) {}
  Faults(std::vector<FailedLink> links) : faults_(std::move(links)) {}
  Faults(std::vector<ComputeFault> computed) : faults_(std::move(computed)) {}

  [[nodiscard]] bool of_bits() const noexcept { return std::holds_alternative<FaultList>(faults_); }
  [[nodiscard]] bool of_processes() const noexcept {
    return std::holds_alternative<std::vector<ProcessFault>>(faults_);
  }
  [[nodiscard]] bool of_links() const noexcept {
    return std::holds_alternative<std::vector<LinkFault>>(faults_);
  }
  [[nodiscard]] bool of_failed_links() const noexcept {
    return std::holds_alternative<std::vector<FailedLink>>(faults_);
  }
  [[nodiscard]] bool of_computing() const noexcept {
    return std::holds_alternative<std::vector<ComputeFault>>(faults_);
  }
  /// Empty if the faults are of another kind.
  [[nodiscard]] const FaultList& bits() const noexcept;
  /// For adding faults; faults of another kind are dropped.
  [[nodiscard]] FaultList& bits();
  /// Empty if the faults are of another kind.
  [[nodiscard]] const std::vector<ProcessFault>& processes() const noexcept;
  [[nodiscard]] const std::vector<LinkFault>& links() const noexcept;
  [[nodiscard]] const std::vector<FailedLink>& failed_links() const noexcept;
  [[nodiscard]] const std::vector<ComputeFault>& computed() const noexcept;
  /// Calls `visitor` with the list of the current kind.
  template <typename Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    return std::visit(std::forward<Visitor>(visitor), faults_);
  }
  [[nodiscard]] std::size_t size() const {
    return visit([](const auto& list) { return list.size(); });
  }
  [[nodiscard]] bool empty() const { return size() == 0; }
  bool operator==(const Faults&) const = default;

 private:
  std::variant<FaultList, std::vector<ProcessFault>, std::vector<LinkFault>, std::vector<FailedLink>,
               std::vector<ComputeFault>>
      faults_;
};

/// "model/fc.weight[3] bit 0,30 0x3f800000 -> 0x7f800001 (1 -> nan)".
[[nodiscard]] std::string described(const AppliedFault& fault);
/// "rank 2@5:backward.1=kill".
[[nodiscard]] std::string described(const ProcessFault& fault);
/// "message 12@5:0.3.30".
[[nodiscard]] std::string described(const LinkFault& fault);
/// "dead link 0,1-0,2@5".
[[nodiscard]] std::string described(const FailedLink& link);
/// "activation conv1@5:0.0.17.30".
[[nodiscard]] std::string described(const ComputeFault& fault);
/// The first `most` of them, separated by "; ", and how many more there are; "none" without a fault.
[[nodiscard]] std::string described(const Faults& faults, std::size_t most);

/// A list: for an altered element its keys, for a process {"process": {...}}, for a message {"link": {...}},
/// for a failed link {"failed_link": {...}}, for a number that flips while it is computed {"compute": {...}}.
void to_json(Json& value, const Faults& faults);
/// Throws Error(bad_file) when the list mixes kinds.
void from_json(const Json& value, Faults& faults);

}  // namespace bitrift::record
