// The dimensions by which trials are grouped into the lines of a table, and which lines are wanted.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/named_enum.h"
#include "design/campaign_spec.h"
#include "record/trial.h"

namespace bitrift::analyze {

/// The part of a training that a role belongs to.
enum class State { model, optimizer, other };
constexpr EnumNames<3> names_of(State) { return {"state", {"model", "optimizer", "other"}}; }
/// role: of a stratum (docs/roles.md); several are joined by '+'. The state is `other` if the roles belong to
/// different states.
[[nodiscard]] State state_of(std::string_view role) noexcept;

/// The dimensions by which trials are grouped into lines. layer, tensor and bit cut through strata; all
/// others are properties of arms or strata.
enum class Dimension {
  strategy,
  base,
  role,
  field,
  stratum,
  layer,
  tensor,
  bit,
  scope,
  plane,
  precision,
  guard,
  state
};
constexpr EnumNames<13> names_of(Dimension) {
  return {"dimension",
          {"strategy", "base", "role", "field", "stratum", "layer", "tensor", "bit", "scope", "plane",
           "precision", "guard", "state"}};
}
/// Its key in Keys::of(): "arm" for strategy, else its name.
[[nodiscard]] constexpr const char* key_name(Dimension dimension) noexcept {
  return dimension == Dimension::strategy ? "arm" : name_of(dimension);
}
/// Whether it cuts through strata, so that populations must be counted in the base checkpoint.
[[nodiscard]] constexpr bool cuts_strata(Dimension dimension) noexcept {
  return dimension == Dimension::layer || dimension == Dimension::tensor || dimension == Dimension::bit;
}

/// For JSON.
[[nodiscard]] std::vector<std::string> dimension_names(const std::vector<Dimension>& by);
/// All words that --by and --where take, for messages.
[[nodiscard]] std::string list_dimensions();

/// The dimensions by which a campaign's rates are grouped by default: strategy and field, or strategy
/// and stratum where the strata are fault models.
[[nodiscard]] std::vector<std::string> usual_dimensions(const design::CampaignSpec& spec);

/// The dimension of one word, if it is one. `arm` is the word for users; files keep `strategy`.
[[nodiscard]] std::optional<Dimension> find_dimension(std::string_view word) noexcept;
/// The same. option: "--by", for messages. Throws Error(bad_input) on an
/// unknown word, Error(unsupported) on one that cuts through strata where these are fault models.
[[nodiscard]] Dimension dimension_named(const std::string& word, const design::CampaignSpec& spec,
                                        const char* option);

/// The dimensions that `by` names, completed. Arms are never pooled, because every fault runs in all of them
/// and their rows are not independent, and neither are bases or fault models: `strategy`, and `base` and
/// `stratum` where there are several, are added where `by` lacks them. Throws as dimension_named() does.
[[nodiscard]] std::vector<Dimension> dimensions(const std::vector<std::string>& by,
                                                const design::CampaignSpec& spec);
/// The same for tables that only count rows. Throws Error(unsupported) on dimensions that cut through strata;
/// `table`: what refuses them, "--view metrics".
[[nodiscard]] std::vector<Dimension> whole_dimensions(const std::vector<std::string>& by,
                                                      const design::CampaignSpec& spec,
                                                      const std::string& table);

/// The key of a row's line: {"arm":"serial","field":"exponent"}.
class Keys {
 public:
  /// by: as dimensions() gives it; what cuts through strata is left out. Both must outlive this.
  Keys(const design::CampaignSpec& spec, const std::vector<Dimension>& by);
  /// Throws Error(conflict) on a stratum that the campaign does not have.
  [[nodiscard]] std::map<std::string, std::string> of(const std::string& arm,
                                                      const std::string& stratum) const;

 private:
  const design::CampaignSpec& spec_;
  const std::vector<Dimension>& by_;
  std::vector<record::Stratum> strata_;
};

}  // namespace bitrift::analyze
