#include "design/kind/bit_strata.h"

#include <algorithm>
#include <iterator>

#include <fmt/ranges.h>

#include "ckpt/tensor_hint.h"
#include "core/error.h"
#include "core/number/number_format.h"
#include "core/text/glob.h"
#include "inject/draw/fault_plan.h"

namespace bitrift::design {
namespace {

using record::Json;

// strata.tensors holds globs for all roles: each cell has one role, and a glob may be meant for other roles
// only.
bool selects(const std::string& glob, const ckpt::Reader& base, const std::vector<std::string>& roles) {
  const auto wanted = [&](const ckpt::TensorInfo& tensor) {
    return std::find(roles.begin(), roles.end(), tensor.role) != roles.end() &&
           glob_selects(glob, tensor.path, tensor.holder, tensor.attribute);
  };
  if (std::any_of(base.tensors().begin(), base.tensors().end(), wanted)) return true;
  if (glob.find('@') == std::string::npos) return false;
  const auto& attributes = base.attribute_tensors();
  return std::any_of(attributes.begin(), attributes.end(), wanted);
}

std::vector<std::string> globs_of_role(const BitStrata& strata, const ckpt::Reader& base,
                                       const std::string& role) {
  std::vector<std::string> globs;
  std::copy_if(strata.tensors.begin(), strata.tensors.end(), std::back_inserter(globs),
               [&](const std::string& glob) { return selects(glob, base, {role}); });
  if (globs.empty() && !strata.tensors.empty()) {
    fail(ErrorCode::not_found,
         "{}: no tensor of this role matches strata.tensors; remove the role, or add a glob",
         base.path().string());
  }
  return globs;
}

class BitPopulation final : public ListedPopulation {
 public:
  BitPopulation(const BitStrata& strata, const record::Stratum& stratum, const Setting& setting)
      : bases_(setting.bases) {
    for (const ckpt::Reader& base : bases_) {
      of_bases_.emplace_back(base, globs_of_role(strata, base, stratum.role), std::vector{stratum.role},
                             stratum.field);
      refuse_other_bits(of_bases_.front(), bases_.front(), of_bases_.back(), base);
    }
  }
  [[nodiscard]] std::uint64_t size() const override { return of_bases_.front().bits(); }
  [[nodiscard]] record::Faults member(std::uint64_t index, std::size_t base) const override {
    return record::compact({inject::flip_at(bases_.at(base), of_bases_.at(base).locate(index))});
  }
  [[nodiscard]] const inject::Population* bits(std::size_t base) const override {
    return &of_bases_.at(base);
  }
  [[nodiscard]] std::vector<std::string> read_tensors() const override {
    return read_tensors_of(of_bases_.front(), bases_.front(), true);
  }

 private:
  const std::vector<ckpt::Reader>& bases_;
  std::vector<inject::Population> of_bases_;  // equally large
};

}  // namespace

void refuse_other_bits(const inject::Population& first, const ckpt::Reader& first_base,
                       const inject::Population& other, const ckpt::Reader& other_base, bool whole) {
  const auto& ours = first.targets();
  const auto& theirs = other.targets();
  const auto same = [whole](const inject::Target& a, const inject::Target& b) {
    return a.path == b.path && a.elements == b.elements && (whole || a.bits.size() == b.bits.size());
  };
  const auto [one, two] = std::mismatch(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same);
  if (one == ours.end() && two == theirs.end()) return;
  const auto text = [](const inject::Target& target) {
    return fmt::format("{} with {} x {} bits ({})", target.path, target.elements, target.bits.size(),
                       target.format.name());
  };
  fail(ErrorCode::bad_input,
       "a fault must exist in every base, but {} has {} where {} has {}; choose fields that are as wide in "
       "all of them, such as sign and exponent_msb",
       first_base.path().filename().string(), one == ours.end() ? "nothing" : text(*one),
       other_base.path().filename().string(), two == theirs.end() ? "nothing" : text(*two));
}

std::vector<std::string> read_tensors_of(const inject::Population& population, const ckpt::Reader& base,
                                         bool named) {
  std::vector<std::string> tensors;
  for (const inject::Target& target : population.targets()) {
    const ckpt::TensorInfo* const tensor = base.find(target.path);
    if (tensor == nullptr || !tensor->format || tensor->format->kind != NumberKind::floating) continue;
    const bool state = target.role != "unknown" && target.role != "progress" && target.role != "checksum";
    if (named || state) tensors.push_back(target.path);
  }
  return tensors;
}

bool asked_for(const std::string& tensor, const std::string& role, const std::vector<std::string>& tensors,
               const std::vector<std::string>& roles) {
  const bool named =
      std::any_of(tensors.begin(), tensors.end(), [&](const auto& glob) { return glob_match(glob, tensor); });
  const bool state = role != "unknown" && role != "progress";
  return (tensors.empty() || named) &&
         (roles.empty() ? state || named : std::find(roles.begin(), roles.end(), role) != roles.end());
}

// Strata partition the targeted bits: a bit in two of them would be counted twice.
void check_fields(const record::Document& document, const std::string& list,
                  const std::vector<std::string>& fields) {
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string pointer = list + "/" + std::to_string(i);
    try {
      check_bit_field(fields[i]);
    } catch (const Error& error) {
      fail(ErrorCode::bad_input, "{}: {}", document.where(pointer), error.what());
    }
    for (const char* name : {"float64", "float32", "float16", "bfloat16", "int64", "uint64"}) {
      const NumberFormat format = *number_format(name);
      const auto bits = bit_field(format, fields[i]);
      for (std::size_t j = 0; j < i; ++j) {
        for (const unsigned bit : bit_field(format, fields[j])) {
          if (std::find(bits.begin(), bits.end(), bit) == bits.end()) continue;
          fail(ErrorCode::bad_input, "{}: '{}' and '{}' share bit {} of {}; fields must not overlap",
               document.where(pointer), fields[j], fields[i], bit, name);
        }
      }
    }
  }
}

Strata::Strata() : Strata(BitStrata{}) {}

Json BitStrata::to_json() const { return {{"tensors", tensors}, {"roles", roles}, {"fields", fields}}; }

std::vector<record::Stratum> BitStrata::strata() const {
  std::vector<record::Stratum> list;
  for (const std::string& role : roles) {
    for (const std::string& field : fields) list.push_back({role + "." + field, role, field, 0});
  }
  return list;
}

std::unique_ptr<const Population> BitStrata::population(std::size_t index, const Setting& setting) const {
  return std::make_unique<BitPopulation>(*this, strata().at(index), setting);
}

void BitStrata::check_bases(const std::vector<ckpt::Reader>& bases) const {
  for (const ckpt::Reader& base : bases) {
    for (const std::string& glob : tensors) {
      if (selects(glob, base, roles)) continue;
      fail(ErrorCode::not_found,
           "strata.tensors: {}: no tensor of role {} matches '{}'{} (* matches within one name, ** also "
           "matches . and /; see bitrift ls); correct or remove it",
           base.path().string(), fmt::join(roles, " or "), glob, ckpt::tensor_hint(base, glob));
    }
  }
}

bool BitStrata::asks_for(const std::string& tensor, const std::string& role) const {
  return asked_for(tensor, role, tensors, roles);
}

Sentences BitStrata::sentences(const std::optional<std::uint64_t>& size) const {
  Sentences said;
  std::string& fault = said.faults[""];
  fault = fmt::format("a flip of one bit, chosen uniformly from the {}{} of {} tensors", size_text(size),
                      bits_text(fields), in_words(roles));
  if (!tensors.empty()) fault += " whose names match " + in_words(tensors, "or");
  said.rates = rate_of_uniform("bit", "bits");
  said.limits = {
      "The rates are those of single-bit faults in the targeted tensors of the base. They say nothing about "
      "other tensors, other bits, several flips at once, or faults that strike later in training."};
  return said;
}

Strata bit_strata_from(const record::Document& document) {
  const Json& value = document.value.at("strata");
  for (const char* key : {"roles", "fields"}) {
    if (value.contains(key)) continue;
    fail(ErrorCode::bad_input, "{}: strata: '{}' is missing; each role x field is a stratum",
         document.place("/strata"), key);
  }
  BitStrata strata;
  strata.tensors = value.value("tensors", strata.tensors);
  value.at("roles").get_to(strata.roles);
  value.at("fields").get_to(strata.fields);
  check_fields(document, "/strata/fields", strata.fields);
  return strata;
}

}  // namespace bitrift::design
