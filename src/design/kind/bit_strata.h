// Cells of bits: each draw flips one bit of one element of a tensor.
#pragma once

#include <string>
#include <vector>

#include "design/kind/kind.h"

namespace bitrift::design {

/// The targeted bits, cut into (role) x (bit field) cells, each a stratum "<role>.<field>".
struct BitStrata final : Kind {
  BitStrata() = default;
  BitStrata(std::vector<std::string> tensors, std::vector<std::string> roles, std::vector<std::string> fields)
      : tensors(std::move(tensors)), roles(std::move(roles)), fields(std::move(fields)) {}

  std::vector<std::string> tensors;  ///< globs; empty: all
  std::vector<std::string> roles;
  /// sign | exponent | mantissa | exponent_msb | range | list; they do not overlap
  std::vector<std::string> fields;

  [[nodiscard]] record::Json to_json() const override;
  [[nodiscard]] std::vector<record::Stratum> strata() const override;
  void check(const record::Document&, const std::vector<record::Parallel>&,
             const std::vector<record::RecoverySpec>&) const override {}
  [[nodiscard]] std::unique_ptr<const Population> population(std::size_t index,
                                                             const Setting& setting) const override;
  void check_bases(const std::vector<ckpt::Reader>& bases) const override;
  [[nodiscard]] const char* members() const override { return "bits"; }
  [[nodiscard]] bool alters_file() const override { return true; }
  [[nodiscard]] bool asks_for(const std::string& tensor, const std::string& role) const override;
  [[nodiscard]] std::vector<Canary> canaries(const record::RecoverySpec&) const override { return {}; }
  [[nodiscard]] Sentences sentences(const std::optional<std::uint64_t>& size) const override;
  [[nodiscard]] std::string no_rates_by(const std::string&) const override { return ""; }
};

/// Reads the value at /strata of a document that obeys the schema. Throws Error(bad_input) with file, line
/// and key: fields that are invalid or overlap, or roles or fields missing.
[[nodiscard]] Strata bit_strata_from(const record::Document& document);

/// Throws Error(bad_input) with file, line and key for fields, at `list`, that are invalid or share a bit.
void check_fields(const record::Document& document, const std::string& list,
                  const std::vector<std::string>& fields);

/// Whether a spec with these tensors and roles targets a tensor of its base.
[[nodiscard]] bool asked_for(const std::string& tensor, const std::string& role,
                             const std::vector<std::string>& tensors, const std::vector<std::string>& roles);

/// A fault runs in every arm, so it must exist in every base: the same tensors, with the same number of bits
/// in an element. whole: the fault sets elements, whatever their width. Throws Error(bad_input) that names
/// the first tensor that differs.
void refuse_other_bits(const inject::Population& first, const ckpt::Reader& first_base,
                       const inject::Population& other, const ckpt::Reader& other_base, bool whole = false);

/// The floating-point tensors of a population that belong to a training's state. named: the spec names the
/// roles. If it does not, a trainer need not read tensors outside of its state.
[[nodiscard]] std::vector<std::string> read_tensors_of(const inject::Population& population,
                                                       const ckpt::Reader& base, bool named);

}  // namespace bitrift::design
