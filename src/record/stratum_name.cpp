#include "record/stratum_name.h"

#include <charconv>

#include <fmt/format.h>

namespace bitrift::record {
namespace {

constexpr std::string_view order_prefix = "control:order-";

constexpr std::string_view reader_prefix = "canary:reads-";

}  // namespace

std::string control_stratum(int order) {
  return order == 0 ? name_of(TrialKind::control) : fmt::format("{}{}", order_prefix, order);
}

std::vector<ProcessCanary> process_canaries(const RecoverySpec& recovery) {
  if (recovery.promises_golden())
    return {ProcessCanary::unreached, ProcessCanary::recovers, ProcessCanary::no_recovery};
  return {ProcessCanary::unreached, ProcessCanary::no_recovery};
}

std::string reader_canary(std::string_view role) { return fmt::format("{}{}", reader_prefix, role); }

std::optional<std::string> role_of_reader_canary(std::string_view stratum) {
  if (!stratum.starts_with(reader_prefix)) return std::nullopt;
  return std::string(stratum.substr(reader_prefix.size()));
}

int order_of_control(std::string_view stratum) noexcept {
  int order = 0;
  if (!stratum.starts_with(order_prefix)) return order;
  const std::string_view number = stratum.substr(order_prefix.size());
  std::from_chars(number.data(), number.data() + number.size(), order);
  return order;
}

}  // namespace bitrift::record
