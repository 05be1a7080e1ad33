#include "record/stratum_name.h"

#include <charconv>

#include <fmt/format.h>

#include "record/trial.h"

namespace bitrift::record {
namespace {

constexpr std::string_view order_prefix = "control:order-";

}  // namespace

std::string control_stratum(int order) {
  return order == 0 ? name_of(TrialKind::control) : fmt::format("{}{}", order_prefix, order);
}

int order_of_control(std::string_view stratum) noexcept {
  int order = 0;
  if (!stratum.starts_with(order_prefix)) return order;
  const std::string_view number = stratum.substr(order_prefix.size());
  std::from_chars(number.data(), number.data() + number.size(), order);
  return order;
}

}  // namespace bitrift::record
