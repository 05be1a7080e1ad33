// The keys of the lines of a table.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/named_enum.h"
#include "record/trial.h"
#include "spec/campaign_spec.h"

namespace bitrift::analyze {

/// By what trials are grouped into lines.
enum class Dimension { strategy, base, role, field, stratum };
constexpr EnumNames<5> names_of(Dimension) {
  return {"dimension", {"strategy", "base", "role", "field", "stratum"}};
}
/// Its key in Keys::of(): "arm" for strategy, else its name.
[[nodiscard]] constexpr const char* key_name(Dimension dimension) noexcept {
  return dimension == Dimension::strategy ? "arm" : name_of(dimension);
}

/// For JSON.
[[nodiscard]] std::vector<std::string> dimension_names(const std::vector<Dimension>& by);

/// The dimensions by which a campaign's rates are grouped by default: strategy and field, or strategy
/// and stratum where the strata are fault models.
[[nodiscard]] std::vector<std::string> usual_dimensions(const record::CampaignSpec& spec);

/// Those that `by` names, completed. Arms are never pooled, because every fault runs in all of them and their
/// rows are not independent, and neither are bases or fault models: `strategy`, and `base` and `stratum`
/// where there are several, are added where `by` lacks them. Throws Error(bad_input) on an unknown dimension.
[[nodiscard]] std::vector<Dimension> dimensions(const std::vector<std::string>& by,
                                                const record::CampaignSpec& spec);

/// The key of a row's line: {"arm":"serial","field":"exponent"}.
class Keys {
 public:
  /// by: as dimensions() gives it. Both must outlive this.
  Keys(const record::CampaignSpec& spec, const std::vector<Dimension>& by);
  /// Throws Error(conflict) on a stratum that the campaign does not have.
  [[nodiscard]] std::map<std::string, std::string> of(const std::string& arm,
                                                      const std::string& stratum) const;

 private:
  const record::CampaignSpec& spec_;
  const std::vector<Dimension>& by_;
  std::vector<record::Stratum> strata_;
};

}  // namespace bitrift::analyze
