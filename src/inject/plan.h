// Planning: from a fault model and a file's layout to a list of single-element changes. Pure but for reading
// old values.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "record/fault.h"

namespace bitrift::inject {

/// A tensor that a fault may hit, with the bits of each element that count.
struct Target {
  std::string path;
  std::string role;
  NumberFormat format;
  std::uint64_t elements = 0;
  std::vector<unsigned> bits;  ///< eligible bits per element, ascending
  [[nodiscard]] std::uint64_t size() const noexcept { return elements * bits.size(); }
};

/// The population of single-bit faults: a flat index runs over tensors in path order, then elements, then
/// bits.
class Population {
 public:
  /// Selects by globs, roles and bit field. A glob or role that matches nothing, and a matched tensor that
  /// cannot be altered, are errors that say which and why (Error(not_found | unsupported)). A matched tensor
  /// whose format has none of the asked bits (an integer asked for its exponent) is left out; when nothing is
  /// left, Error(bad_input).
  Population(const ckpt::Reader& reader, const std::vector<std::string>& tensors,
             const std::vector<std::string>& roles, const std::string& bits, bool keep_sign = false);
  [[nodiscard]] std::uint64_t bits() const noexcept { return total_; }  ///< number of single-bit faults
  [[nodiscard]] std::uint64_t elements() const noexcept { return elements_; }
  [[nodiscard]] const std::vector<Target>& targets() const noexcept { return targets_; }
  /// What a flat index (0 .. bits()-1) names.
  struct Location {
    const Target* target;
    std::uint64_t element;
    unsigned bit;
  };
  [[nodiscard]] Location locate(std::uint64_t index) const;
  /// What a flat element index (0 .. elements()-1) names.
  [[nodiscard]] Location locate_element(std::uint64_t index) const;

 private:
  std::vector<Target> targets_;
  std::vector<std::uint64_t> first_;          // flat index of each target's first bit
  std::vector<std::uint64_t> first_element_;  // and of its first element
  std::uint64_t total_ = 0;
  std::uint64_t elements_ = 0;
};

/// A planned injection.
struct Plan {
  std::vector<record::AppliedFault> faults;  ///< sorted by (tensor, element); one entry an element
  std::uint64_t eligible_bits = 0;           ///< size of the population drawn from
  std::uint64_t eligible_elements = 0;
  std::uint64_t redrawn = 0;  ///< samples refused by allow_nan / keep_sign and drawn again
};

/// The population that a model draws from. Kinds that set whole elements (zero, nan, inf) count elements
/// only; nan and inf leave integers out, which have neither. Throws Error(bad_input) when the model
/// contradicts itself, else as Population does.
[[nodiscard]] Population population_of(const ckpt::Reader& reader, const record::FaultModel& model);

/// The bytes of a file that hold no tensor's values: superblock, object headers, heaps, trees, attributes,
/// gaps. First and last + 1, ascending.
struct ByteExtent {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};
/// Throws Error(unsupported) when values lie where they cannot be told apart from structures (tensors that
/// are not contiguous).
[[nodiscard]] std::vector<ByteExtent> metadata_extents(const ckpt::Reader& reader);

/// Draws the faults of a model of the plane metadata: flips of single bits, the i-th being
/// Permutation(bits, derive_key(seed, "inject.metadata"))(i) of the extents' bits, byte by byte, bit 0 first.
/// Throws Error(bad_input) when the model asks for what this plane does not have (tensors, roles, fields,
/// other kinds, a fraction).
[[nodiscard]] Plan plan_metadata(const ckpt::Reader& reader, const record::FaultModel& model);

/// Draws the faults. Plane metadata: plan_metadata. The i-th sample is Permutation(population,
/// derive_key(seed, "inject"))(i) for the measure `bit`; docs/faults.md has the others. Throws
/// Error(bad_input) when more is asked than there is.
[[nodiscard]] Plan plan(const ckpt::Reader& reader, const record::FaultModel& model);

/// Single-bit flip at one place, with the old pattern read from the file. For campaigns, which draw
/// themselves.
[[nodiscard]] record::AppliedFault flip_at(const ckpt::Reader& reader, const Population::Location& where);

/// Flips the sign bit of every element (`negate`), or sets every element to NaN (`nan`), of one tensor:
/// canaries.
[[nodiscard]] std::vector<record::AppliedFault> whole_tensor(const ckpt::Reader& reader,
                                                             const std::string& path,
                                                             const std::string& what);

}  // namespace bitrift::inject
