#include "analyze/views/where.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "core/error.h"
#include "core/text/glob.h"

namespace bitrift::analyze {
namespace {

constexpr std::size_t most_values = 20;

bool matches(Dimension dimension, const std::string& wanted, const std::string& value) {
  return dimension == Dimension::tensor ? glob_match(wanted, value) : wanted == value;
}

// A field such as 3,7,30 counts as one value.
bool is_one_value(Dimension dimension, const std::string& text, const design::CampaignSpec& spec) {
  if (dimension != Dimension::field && dimension != Dimension::stratum) return false;
  const auto strata = spec.strata->strata();
  return std::any_of(strata.begin(), strata.end(),
                     [&](const record::Stratum& one) { return text == one.field || text == one.name; });
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::size_t first = 0;
  while (first <= text.size()) {
    const std::size_t end = std::min(text.find(',', first), text.size());
    parts.push_back(text.substr(first, end - first));
    first = end + 1;
  }
  return parts;
}

std::string shortened(const std::vector<std::string>& list) {
  const auto end = list.begin() + static_cast<std::ptrdiff_t>(std::min(list.size(), most_values));
  const std::string text = fmt::format("{}", fmt::join(list.begin(), end, ", "));
  return list.size() <= most_values ? text : fmt::format("{} and {} more", text, list.size() - most_values);
}

}  // namespace

Where::Where(const std::vector<std::string>& conditions, const design::CampaignSpec& spec) {
  for (const std::string& condition : conditions) {
    const std::size_t at = condition.find('=');
    if (at == std::string::npos || at == 0 || at + 1 == condition.size()) {
      fail(ErrorCode::bad_input, "--where {}: give KEY=VALUE, such as role=weight or layer=conv1,conv2",
           condition);
    }
    const Dimension dimension = dimension_named(condition.substr(0, at), spec, "--where");
    const std::string text = condition.substr(at + 1);
    const auto values = is_one_value(dimension, text, spec) ? std::vector{text} : split(text);
    auto& wanted = wanted_[dimension];
    wanted.insert(wanted.end(), values.begin(), values.end());
  }
}

bool Where::cuts_strata() const noexcept {
  return std::any_of(wanted_.begin(), wanted_.end(),
                     [](const auto& one) { return analyze::cuts_strata(one.first); });
}

std::vector<Dimension> Where::dimensions() const {
  std::vector<Dimension> list;
  for (const auto& [dimension, values] : wanted_) list.push_back(dimension);
  return list;
}

bool Where::allows(Dimension dimension, const std::string& value) {
  const auto at = wanted_.find(dimension);
  if (at == wanted_.end()) return true;
  auto& offered = offered_[dimension];
  if (std::find(offered.begin(), offered.end(), value) == offered.end()) offered.push_back(value);
  bool allowed = false;
  for (const std::string& wanted : at->second) {
    if (!matches(dimension, wanted, value)) continue;
    met_[dimension].insert(wanted);
    allowed = true;
  }
  return allowed;
}

void Where::check() const {
  for (const auto& [dimension, values] : wanted_) {
    for (const std::string& value : values) {
      const auto met = met_.find(dimension);
      if (met != met_.end() && met->second.contains(value)) continue;
      const auto offered = offered_.find(dimension);
      fail(ErrorCode::bad_input, "--where {}={}: the trials of this campaign have {}", key_name(dimension),
           value, offered == offered_.end() ? "none" : shortened(offered->second));
    }
  }
}

bool needs_contents(const std::vector<std::string>& by, const std::vector<std::string>& where) {
  const auto cuts = [](const std::string& word) {
    const auto dimension = find_dimension(word.substr(0, word.find('=')));
    return dimension && cuts_strata(*dimension);
  };
  return std::any_of(by.begin(), by.end(), cuts) || std::any_of(where.begin(), where.end(), cuts);
}

}  // namespace bitrift::analyze
