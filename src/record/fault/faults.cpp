#include "record/fault/faults.h"

#include "core/error.h"

namespace bitrift::record {

const FaultList& Faults::bits() const noexcept {
  static const FaultList none;
  const auto* const list = std::get_if<FaultList>(&faults_);
  return list == nullptr ? none : *list;
}

FaultList& Faults::bits() {
  if (!std::holds_alternative<FaultList>(faults_)) faults_ = FaultList{};
  return std::get<FaultList>(faults_);
}

const std::vector<ProcessFault>& Faults::processes() const noexcept {
  static const std::vector<ProcessFault> none;
  const auto* const list = std::get_if<std::vector<ProcessFault>>(&faults_);
  return list == nullptr ? none : *list;
}

const std::vector<LinkFault>& Faults::links() const noexcept {
  static const std::vector<LinkFault> none;
  const auto* const list = std::get_if<std::vector<LinkFault>>(&faults_);
  return list == nullptr ? none : *list;
}

const std::vector<FailedLink>& Faults::failed_links() const noexcept {
  static const std::vector<FailedLink> none;
  const auto* const list = std::get_if<std::vector<FailedLink>>(&faults_);
  return list == nullptr ? none : *list;
}

Json to_json(const Faults& faults) {
  Json value = Json::array();
  const FaultList& bits = faults.bits();
  for (std::size_t i = 0; i < bits.size(); ++i) value.push_back(to_json(bits.at(i)));
  for (const ProcessFault& fault : faults.processes()) value.push_back({{"process", to_json(fault)}});
  for (const LinkFault& fault : faults.links()) value.push_back({{"link", to_json(fault)}});
  for (const FailedLink& link : faults.failed_links()) value.push_back({{"failed_link", to_json(link)}});
  return value;
}

Faults faults_from_json(const Json& value) {
  FaultList bits;
  std::vector<ProcessFault> processes;
  std::vector<LinkFault> links;
  std::vector<FailedLink> failed;
  for (const Json& fault : value) {
    if (fault.contains("process")) {
      processes.push_back(process_fault_from_json(fault.at("process")));
    } else if (fault.contains("link")) {
      links.push_back(link_fault_from_json(fault.at("link")));
    } else if (fault.contains("failed_link")) {
      failed.push_back(failed_link_from_json(fault.at("failed_link")));
    } else {
      bits.append(applied_fault_from_json(fault));
    }
  }
  const int kinds = (bits.empty() ? 0 : 1) + (processes.empty() ? 0 : 1) + (links.empty() ? 0 : 1) +
                    (failed.empty() ? 0 : 1);
  if (kinds > 1)
    fail(ErrorCode::bad_file,
         "'faults' mixes altered bits, processes that fail, altered messages and failed links");
  if (!processes.empty()) return processes;
  if (!links.empty()) return links;
  if (!failed.empty()) return failed;
  return bits;
}

}  // namespace bitrift::record
