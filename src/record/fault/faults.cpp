#include "record/fault/faults.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/number/number_format.h"

namespace bitrift::record {
namespace {

// The key of a fault during a run in a list of faults. Altered bits have none.
const char* key_of(const ProcessFault&) { return "process"; }
const char* key_of(const LinkFault&) { return "link"; }
const char* key_of(const FailedLink&) { return "failed_link"; }
const char* key_of(const ComputeFault&) { return "compute"; }

// Empty if the faults are of another kind.
template <typename Fault, typename Variant>
const std::vector<Fault>& list_of(const Variant& faults) noexcept {
  static const std::vector<Fault> none;
  const auto* const list = std::get_if<std::vector<Fault>>(&faults);
  return list == nullptr ? none : *list;
}

// " (1 -> 0.5)"; "" where the patterns are not those of a number.
std::string as_numbers(const AppliedFault& fault) {
  const auto format = number_format(fault.dtype);
  if (!format || names_byte(fault.plane, fault.structure)) return "";
  const auto text = [&](std::uint64_t pattern) -> std::string {
    const double value = decode_number(*format, pattern);
    if (std::isnan(value)) return "nan";  // its sign means nothing
    return format->kind == NumberKind::floating ? fmt::format("{:.4g}", value) : fmt::format("{:.0f}", value);
  };
  return fmt::format(" ({} -> {})", text(fault.old_pattern), text(fault.new_pattern));
}

}  // namespace

const FaultList& Faults::bits() const noexcept {
  static const FaultList none;
  const auto* const list = std::get_if<FaultList>(&faults_);
  return list == nullptr ? none : *list;
}

FaultList& Faults::bits() {
  if (!std::holds_alternative<FaultList>(faults_)) faults_ = FaultList{};
  return std::get<FaultList>(faults_);
}

const std::vector<ProcessFault>& Faults::processes() const noexcept { return list_of<ProcessFault>(faults_); }

const std::vector<LinkFault>& Faults::links() const noexcept { return list_of<LinkFault>(faults_); }

const std::vector<FailedLink>& Faults::failed_links() const noexcept { return list_of<FailedLink>(faults_); }

const std::vector<ComputeFault>& Faults::computed() const noexcept { return list_of<ComputeFault>(faults_); }

std::string described(const AppliedFault& fault) {
  return fmt::format("{}[{}] bit {} {:#x} -> {:#x}{}", fault.tensor, fault.element,
                     fmt::join(fault.bits, ","), fault.old_pattern, fault.new_pattern, as_numbers(fault));
}

std::string described(const ProcessFault& fault) { return "rank " + to_text(fault); }

std::string described(const LinkFault& fault) { return "message " + to_text(fault); }

std::string described(const FailedLink& link) {
  return fmt::format("{} link {}", name_of(link.kind), to_text(link));
}

std::string described(const ComputeFault& fault) {
  std::string text = to_text(fault);
  text[text.find(':')] = ' ';
  return text;
}

std::string described(const Faults& faults, std::size_t most) {
  std::vector<std::string> texts;
  faults.visit([&](const auto& list) {
    for (std::size_t i = 0; i < std::min(list.size(), most); ++i) texts.push_back(described(list.at(i)));
  });
  if (texts.empty()) return "none";
  const std::string more =
      faults.size() > most ? fmt::format("; and {} more", faults.size() - most) : std::string();
  return fmt::format("{}{}", fmt::join(texts, "; "), more);
}

void to_json(Json& value, const Faults& faults) {
  value = Json::array();
  faults.visit([&]<typename List>(const List& list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if constexpr (std::is_same_v<List, FaultList>) {
        value.push_back(to_json(list.at(i)));
      } else {
        value.push_back({{key_of(list[i]), to_json(list[i])}});
      }
    }
  });
}

void from_json(const Json& value, Faults& faults) {
  FaultList bits;
  std::vector<ProcessFault> processes;
  std::vector<LinkFault> links;
  std::vector<FailedLink> failed;
  std::vector<ComputeFault> computed;
  for (const Json& fault : value) {
    if (fault.contains("process")) {
      processes.push_back(fault.at("process").get<ProcessFault>());
    } else if (fault.contains("link")) {
      links.push_back(fault.at("link").get<LinkFault>());
    } else if (fault.contains("failed_link")) {
      failed.push_back(failed_link_from_json(fault.at("failed_link")));
    } else if (fault.contains("compute")) {
      computed.push_back(compute_fault_from_json(fault.at("compute")));
    } else {
      bits.append(applied_fault_from_json(fault));
    }
  }
  int kinds = bits.empty() ? 0 : 1;
  faults = std::move(bits);
  const auto take = [&](auto& list) {
    if (list.empty()) return;
    ++kinds;
    faults = std::move(list);
  };
  take(processes);
  take(links);
  take(failed);
  take(computed);
  if (kinds > 1)
    fail(ErrorCode::bad_file,
         "'faults' mixes altered bits, processes that fail, altered messages, failed links and faults "
         "while computing");
}

}  // namespace bitrift::record
