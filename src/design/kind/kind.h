// A kind of fault: everything that a campaign must know about what it studies (CONTRIBUTING.md, "How to add a
// kind of fault").
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ckpt/reader.h"
#include "design/kind/canary.h"
#include "design/kind/sentences.h"
#include "inject/draw/population.h"
#include "record/fault/faults.h"
#include "record/json/json.h"
#include "record/trial.h"
#include "spec/parallel.h"

namespace bitrift::design {

/// Where the faults of a campaign strike. `bases` and `parallel` must outlive the objects that are made from
/// it.
struct Setting {
  const std::vector<ckpt::Reader>& bases;  ///< the files that arms resume from; empty: not known yet
  const record::Parallel& parallel;  ///< of the first arm; kinds that depend on it require the same of all
                                     ///< arms
  std::int64_t epochs = 0;           ///< of a run
};

/// Members of a population that are bits of one tensor, or numbers.
struct TensorMembers {
  std::string tensor, layer;   ///< layer: "" when it belongs to none
  std::uint64_t each = 0;      ///< members for each of the bits, or all of them if they are numbers
  std::vector<unsigned> bits;  ///< ascending, 0 is the least significant; empty: the members are numbers
};

/// The faults of one stratum.
class Population {
 public:
  virtual ~Population() = default;
  /// The number of faults; record::unbounded_stratum for sets that are drawn independently of each other.
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Draw `number` of a stratum with this key, in the base of this index. It depends on nothing else.
  [[nodiscard]] virtual record::Faults draw(std::uint64_t key, std::uint64_t number,
                                            std::size_t base) const = 0;
  /// The single bits of tensors that it holds in that base; nullptr if it holds other faults.
  [[nodiscard]] virtual const inject::Population* bits(std::size_t /*base*/) const { return nullptr; }
  /// If it holds single bits of tensors that are in no file: all of them.
  [[nodiscard]] virtual std::vector<TensorMembers> computed() const { return {}; }
  /// The tensors of the first base whose values its faults alter, for the canaries that read them.
  [[nodiscard]] virtual std::vector<std::string> read_tensors() const { return {}; }
};

/// Faults in a list that can be used up: draw d is member Permutation(size(), key)(d).
class ListedPopulation : public Population {
 public:
  [[nodiscard]] record::Faults draw(std::uint64_t key, std::uint64_t number, std::size_t base) const final;
  /// Member `index` of 0 .. size()-1, a bijection, in the base of this index.
  [[nodiscard]] virtual record::Faults member(std::uint64_t index, std::size_t base) const = 0;
};

/// What bitrift-train says about a training, or a script shows, so that its faults are known.
struct FactNeeded {
  const char* key;      ///< its key in the output of `bitrift-train describe --json` and of a script
  const char* pointer;  ///< its place in a stored spec; a user may not write it
  const char* says;     ///< "at which points ranks can fail": what is found out
  const char* what;     ///< "the points at which ranks can fail"
};

class Kind;

/// The strata of a campaign: a kind of fault with the user's settings. A value; never empty.
class Strata {
 public:
  template <std::derived_from<Kind> K>
  Strata(K kind) : kind_(std::make_shared<K>(std::move(kind))) {}
  /// No stratum: bit cells without roles.
  Strata();
  const Kind* operator->() const noexcept { return kind_.get(); }
  const Kind& operator*() const noexcept { return *kind_; }
  /// nullptr if the campaign studies another kind.
  template <std::derived_from<Kind> K>
  [[nodiscard]] const K* as() const noexcept {
    return dynamic_cast<const K*>(kind_.get());
  }
  /// The strata as a K, to be changed: an empty one if they were of another kind. Copies of these strata do
  /// not change.
  template <std::derived_from<Kind> K>
  K& edit() {
    if (as<K>() == nullptr) {
      kind_ = std::make_shared<K>();
    } else if (kind_.use_count() > 1) {
      kind_ = std::make_shared<K>(*as<K>());
    }
    return dynamic_cast<K&>(*kind_);
  }

 private:
  std::shared_ptr<Kind> kind_;
};

class Kind {
 public:
  virtual ~Kind() = default;

  // The user's wishes.

  /// The value at /strata of a spec, with the fact if it is known.
  [[nodiscard]] virtual record::Json to_json() const = 0;
  /// Their names, roles and fields in order, without sizes.
  [[nodiscard]] virtual std::vector<record::Stratum> strata() const = 0;
  /// The name from which the draws of a stratum follow. Strata of the same population with one such name hold
  /// the same members in the same order.
  [[nodiscard]] virtual std::string draws_of(const std::string& stratum) const { return stratum; }
  /// Refuses other parts of a spec that do not fit these faults. recoveries: of the arms. Throws
  /// Error(bad_input) with file, line and key.
  virtual void check(const record::Document& document, const std::vector<record::Parallel>& arms,
                     const std::vector<record::RecoverySpec>& recoveries) const = 0;

  // The faults that can be drawn.

  /// Throws Error(not_found) when the bases lack what the spec names.
  virtual void check_bases(const std::vector<ckpt::Reader>& /*bases*/) const {}
  /// The faults of stratum `index`. Throws Error(bad_input | not_found | unsupported) when there are none,
  /// when another base holds others, or when the fact is not known.
  [[nodiscard]] virtual std::unique_ptr<const Population> population(std::size_t index,
                                                                     const Setting& setting) const = 0;
  /// "bits": the members of a stratum, as a plural.
  [[nodiscard]] virtual const char* members() const = 0;
  /// Whether its strata are parts of one population, so that rates over all of them have a meaning.
  [[nodiscard]] virtual bool pooled() const { return true; }
  [[nodiscard]] virtual std::optional<FactNeeded> fact_needed() const { return std::nullopt; }
  /// nullopt: not known.
  [[nodiscard]] virtual std::optional<record::Json> fact() const { return std::nullopt; }
  /// The same strata with the fact. Throws Error(bad_file) when it is not a valid fact.
  [[nodiscard]] virtual Strata with_fact(const record::Json& fact) const;
  /// The layers of its tensors in network order, where these are in no file; empty: as in a base.
  [[nodiscard]] virtual std::vector<std::string> layers() const { return {}; }
  /// The number of steps of a run according to the fact from which faults are drawn; nullopt: they do not
  /// depend on one.
  [[nodiscard]] virtual std::optional<std::int64_t> steps_of_run(std::int64_t /*epochs*/) const {
    return std::nullopt;
  }

  // The faults that a run meets.

  /// Whether the file that a run loads is altered.
  [[nodiscard]] virtual bool alters_file() const = 0;
  /// Whether an arm may choose its recovery.
  [[nodiscard]] virtual bool recovers() const { return false; }
  /// The number of ranks that fail in one trial.
  [[nodiscard]] virtual int failing() const { return 0; }
  /// The model of a stratum of sets of faults; nullptr for other strata.
  [[nodiscard]] virtual const record::FaultModel* model(const std::string& /*stratum*/) const {
    return nullptr;
  }
  /// The plane of a stratum, as `--by plane` names it.
  [[nodiscard]] virtual const char* plane(const std::string& stratum) const;
  /// Whether the spec asks for faults in this tensor.
  [[nodiscard]] virtual bool asks_for(const std::string& /*tensor*/, const std::string& /*role*/) const {
    return false;
  }

  // The checks that show that it works.

  /// The canaries of an arm that only this kind has, in the order in which they run.
  [[nodiscard]] virtual std::vector<Canary> canaries(const record::RecoverySpec& recovery) const = 0;
  /// Makes `run` the canary of this stratum, which canaries() names.
  virtual void plant(const std::string& stratum, const Setting& setting, const record::RecoverySpec& recovery,
                     record::TrialSpec& run) const;

  // The sentences about it.

  [[nodiscard]] virtual Sentences sentences(const std::optional<std::uint64_t>& size) const = 0;
  /// Why rates by layer, tensor or bit (`word`) do not exist, and by what to group instead; "": they exist.
  [[nodiscard]] virtual std::string no_rates_by(const std::string& word) const = 0;
  /// The dimension by which rates are shown by default, in addition to the arm.
  [[nodiscard]] virtual const char* usual_dimension() const { return "field"; }
  /// "ranks, steps and points": the set over which a rate is an average.
  [[nodiscard]] virtual const char* averaged_over() const { return "bits"; }
  /// Whether a fault is expected to change the final state, so that a stratum in which no fault does is
  /// suspect.
  [[nodiscard]] virtual bool leaves_traces() const { return true; }
};

/// Strata whose draws are independent sets have no common population, and they cannot be used up. Throws
/// Error(bad_input) with file, line and key if the document asks for a total over `strata` of them, or for
/// all members. what: "fault models".
void refuse_totals(const record::Document& document, std::size_t strata, const char* what);

}  // namespace bitrift::design
