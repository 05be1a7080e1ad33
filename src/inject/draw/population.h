// The population of single faults from which samples are drawn.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/reader.h"
#include "inject/alteration.h"
#include "inject/stored_bytes.h"
#include "record/fault/fault.h"

namespace bitrift::inject {

struct Choice;
struct Chosen;

/// A tensor that a fault may hit, with what counts of each element.
///
/// On the plane storage a dataset with filters is one target, whose elements are its stored bytes: all chunks
/// by ascending cell, whatever their bytes mean.
struct Target {
  std::string path;
  std::string role;
  NumberFormat format;  ///< the format as which its bits are read
  std::uint64_t elements = 0;
  /// Eligible bits per element, ascending; for a burst or a mask, the places where it fits (Alteration).
  std::vector<unsigned> bits;
  std::shared_ptr<const StoredBytes> stored = {};  ///< set where elements are stored bytes
  std::uint64_t first = 0;                         ///< number of its elements; 1 if one was chosen
  [[nodiscard]] std::uint64_t size() const noexcept { return elements * bits.size(); }
};

/// A flat index runs over tensors in path order, then elements, then bits.
class Population {
 public:
  /// Selects by globs, roles and bit field. A glob or role that matches nothing, and a matched tensor that
  /// cannot be altered, are errors that say which and why (Error(not_found | unsupported)). A matched tensor
  /// whose format has none of the requested bits (an integer asked for its exponent) is left out; when
  /// nothing is left, or when there is more than 2^63, Error(bad_input).
  Population(const ckpt::Reader& reader, const std::vector<std::string>& tensors,
             const std::vector<std::string>& roles, const std::string& bits, bool keep_sign = false);
  /// The population of a model, without the policy allow_nan. Throws Error(bad_input) when the model
  /// contradicts itself, names an element that does not exist, or asks on the plane storage for something
  /// that filtered bytes do not have.
  Population(const ckpt::Reader& reader, const record::FaultModel& model);

  [[nodiscard]] std::uint64_t bits() const noexcept { return total_; }  ///< number of single faults
  [[nodiscard]] std::uint64_t elements() const noexcept { return elements_; }
  [[nodiscard]] const std::vector<Target>& targets() const noexcept { return targets_; }
  /// The place that a flat index (0 .. bits()-1) denotes.
  struct Location {
    const Target* target;
    std::uint64_t element;
    unsigned bit;
  };
  [[nodiscard]] Location locate(std::uint64_t index) const;
  /// The element that a flat element index (0 .. elements()-1) denotes.
  [[nodiscard]] Location locate_element(std::uint64_t index) const;
  /// The flat element index of a location.
  [[nodiscard]] std::uint64_t flat_element(const Location& where) const noexcept;

 private:
  void fill(const ckpt::Reader& reader, const record::FaultModel& model);
  void add(const std::string& file, Target target);

  std::vector<Target> targets_;
  std::vector<std::uint64_t> first_;          // flat index of each target's first bit
  std::vector<std::uint64_t> first_element_;  // and of its first element
  std::uint64_t total_ = 0;
  std::uint64_t elements_ = 0;
};

}  // namespace bitrift::inject
