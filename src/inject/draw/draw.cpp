#include "inject/draw/draw.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "inject/draw/old_values.h"
#include "inject/draw/place_index.h"

namespace bitrift::inject {
namespace {

using Location = Population::Location;

/// The number of samples whose values are read together.
constexpr std::uint64_t batch_samples = std::uint64_t{1} << 20;

/// Block i of the memory is target i.
Upsets upsets_of(const Population& population, const record::FaultModel& model) {
  std::vector<MemoryBlock> blocks;
  blocks.reserve(population.targets().size());
  for (const Target& target : population.targets()) blocks.push_back({target.format, target.elements});
  return {MemoryImage(blocks), model};
}

/// Draws in batches: first the places, then the old values in the order of the file, then, sample by sample,
/// the result of a fault.
class Draw {
 public:
  Draw(const ckpt::Reader& reader, const record::FaultModel& model, const Population& population)
      : model_(model), population_(population), kind_(model), values_(reader, population) {}

  Drawn run() {
    if (model_.what == record::FaultKind::upset) {
      by_upset(*model_.count);
    } else if (model_.ber) {
      by_error_rate();
    } else if (model_.measure == record::Measure::tensor) {
      by_tensor(wanted(kind_.whole() ? population_.elements() : population_.bits()));
    } else if (kind_.whole() || model_.fraction || model_.measure == record::Measure::element) {
      by_element(wanted(population_.elements()));
    } else {
      by_bit(wanted(population_.bits()));
    }
    return finish();
  }

 private:
  [[nodiscard]] std::uint64_t key(const char* purpose) const { return derive_key(model_.seed, purpose); }

  [[nodiscard]] std::uint64_t wanted(std::uint64_t most) const {
    std::uint64_t count = model_.count.value_or(0);
    if (model_.fraction) {
      count = static_cast<std::uint64_t>(
          std::llround(*model_.fraction * static_cast<double>(population_.elements())));
      if (count == 0) {
        fail_at(ErrorCode::bad_input, "fraction",
                "--fraction {} of {} elements is less than half an element: give a larger fraction",
                *model_.fraction, population_.elements());
      }
    }
    if (count > most) {
      fail_at(ErrorCode::bad_input, "count", "--count {} is more than the {} {} that are targeted", count,
              most,
              most != population_.bits() ? "elements"
              : kind_.single_bits()      ? "bits"
                                         : "places");
    }
    check_amount(static_cast<double>(count));
    return count;
  }

  static void check_amount(double count) {
    if (count <= static_cast<double>(most_faults)) return;
    fail_at(ErrorCode::bad_input, "count",
            "this would be about {:.3g} faults, but one injection has at most {}; request fewer", count,
            most_faults);
  }

  [[noreturn]] void exhausted(std::uint64_t count) const {
    // Single bits never overlap: no sample hits a bit that is already altered.
    const char* const overlap = "overlap bits that are altered already";
    fail(ErrorCode::bad_input, "only {} of the {} faults can be placed: all other draws {}{}{}", placed_,
         count, model_.allow_nan ? "" : "give NaN or infinity, which --no-nan forbids",
         model_.allow_nan || kind_.single_bits() ? "" : ", or ", kind_.single_bits() ? "" : overlap);
  }

  /// Takes samples next(i) for i = 0, 1, 2, ... below `most` until `count` are placed.
  template <typename Next>
  bool place_until(std::uint64_t count, std::uint64_t most, Next next) {
    for (std::uint64_t i = 0; placed_ < count;) {
      batch_.clear();
      const std::uint64_t size = std::min({count - placed_, batch_samples, most - i});
      if (size == 0) return false;
      batch_.reserve(size);
      for (const std::uint64_t end = i + size; i < end; ++i) batch_.push_back({next(i), i});
      place_batch();
    }
    return true;
  }

  void by_bit(std::uint64_t count) {
    const Permutation order(population_.bits(), key("inject"));
    if (!place_until(count, order.size(), [&](std::uint64_t i) { return population_.locate(order(i)); })) {
      exhausted(count);
    }
  }

  void by_element(std::uint64_t count) {
    const Permutation order(population_.elements(), key("inject.element"));
    const std::uint64_t bit_key = key("inject.bit");
    const auto next = [&](std::uint64_t i) {
      Location where = population_.locate_element(order(i));
      where.bit = where.target->bits[random_below(bit_key, i, 0, where.target->bits.size())];
      return where;
    };
    if (!place_until(count, order.size(), next)) exhausted(count);
  }

  void by_tensor(std::uint64_t count) {
    const std::uint64_t tensor_key = key("inject.tensor");
    const std::uint64_t element_key = key("inject.tensor.element");
    const std::uint64_t bit_key = key("inject.tensor.bit");
    const std::uint64_t most = 1'000'000 + 1'000 * std::min<std::uint64_t>(count, 1'000'000'000);
    const auto& targets = population_.targets();
    const auto next = [&](std::uint64_t i) -> Location {
      const Target& target = targets[random_below(tensor_key, i, 0, targets.size())];
      return {&target, target.first + random_below(element_key, i, 0, target.elements),
              target.bits[random_below(bit_key, i, 0, target.bits.size())]};
    };
    if (place_until(count, most, next)) return;
    fail(ErrorCode::bad_input,
         "{} draws of --measure tensor placed only {} of {} faults: the small tensors are "
         "used up; give a smaller --count",
         most, placed_, count);
  }

  /// Gaps between struck bits are geometric, so each fault costs one draw.
  void by_error_rate() {
    const double rate = *model_.ber;
    check_amount(rate * static_cast<double>(population_.bits()));
    const double scale = rate < 1 ? std::log1p(-rate) : 0;
    const std::uint64_t gap_key = key("inject.ber");
    std::uint64_t count = 0;
    std::uint64_t bit = 0;
    const auto place_all = [&] {
      count += batch_.size();
      place_batch();
      batch_.clear();
    };
    for (std::uint64_t i = 0;; ++i) {
      const double gap = rate < 1 ? std::floor(std::log1p(-random_unit(gap_key, i, 0)) / scale) : 0;
      if (gap >= static_cast<double>(population_.bits() - bit)) break;
      bit += static_cast<std::uint64_t>(gap);
      if (bit >= population_.bits()) break;
      batch_.push_back({population_.locate(bit), i});
      if (batch_.size() == batch_samples) place_all();
      if (++bit == population_.bits()) break;
    }
    place_all();
    if (placed_ < count) by_bit(count);
  }

  /// Each upset escapes the code on its own. Bits that two of them strike are right again.
  void by_upset(std::uint64_t count) {
    const Upsets upsets = upsets_of(population_, model_);
    check_amount(static_cast<double>(count) * static_cast<double>(upsets.most_words()));
    shares_ = upsets.shares();
    std::vector<std::uint64_t> masks;
    const auto place_all = [&] {
      values_.read(batch_);
      reserve(batch_.size());
      for (std::size_t i = 0; i < batch_.size(); ++i) {
        const Location& where = batch_[i].where;
        const std::uint64_t element = population_.flat_element(where);
        if (record::ElementChange* const found = index_.find(element, changes_); found != nullptr) {
          found->new_pattern ^= masks[i];
          found->bits |= masks[i];
        } else {
          add(where, element, masks[i], values_.old(i), values_.old(i) ^ masks[i]);
        }
      }
      batch_.clear();
      masks.clear();
    };
    for (std::uint64_t i = 0; i < count; ++i) {
      for (const Upsets::WrongWord& wrong : upsets.draw(key("inject.upset"), i)) {
        const Target& target = population_.targets()[wrong.block];
        for (const auto& [element, mask] : wrong_values(target.format, wrong.word, wrong.bits)) {
          batch_.push_back({{&target, element, 0}, i});
          masks.push_back(mask);
        }
      }
      if (batch_.size() >= batch_samples) place_all();
    }
    place_all();
  }

  void reserve(std::size_t more) {
    changes_.reserve(changes_.size() + more);
    index_.reserve(changes_.size() + more);
  }

  void add(const Location& where, std::uint64_t element, std::uint64_t mask, std::uint64_t before,
           std::uint64_t after) {
    const auto site = static_cast<std::uint32_t>(where.target - population_.targets().data());
    index_.insert(element, changes_.size());
    changes_.push_back({{site, where.element, mask, before, after}, element});
  }

  void place_batch() {
    values_.read(batch_);
    reserve(batch_.size());
    for (std::size_t i = 0; i < batch_.size(); ++i) place(batch_[i], values_.old(i));
  }

  /// Leaves out samples that are already placed, and those that a policy refuses (which are counted).
  void place(const Sample& sample, std::uint64_t value) {
    const auto& [where, number] = sample;
    const NumberFormat& format = where.target->format;
    const std::uint64_t element = population_.flat_element(where);
    const std::uint64_t mask = kind_.touched(format, where.bit);
    record::ElementChange* const found = index_.find(element, changes_);
    if (found != nullptr && (kind_.whole() || (found->bits & mask) != 0)) return;
    const std::uint64_t before = found != nullptr ? found->new_pattern : value;
    const auto pattern = altered(*where.target, where, before, number);
    if (!pattern) {
      ++redrawn_;
      return;
    }
    ++placed_;
    if (found != nullptr) {
      found->new_pattern = *pattern;
      found->bits |= mask;
      return;
    }
    add(where, element, mask, value, *pattern);
  }

  [[nodiscard]] std::optional<std::uint64_t> altered(const Target& target, const Location& where,
                                                     std::uint64_t before, std::uint64_t number) const {
    try {
      return kind_.apply(target.format, before, where.bit,
                         [&](std::uint64_t k) { return random_u64(value_key_, number, k); });
    } catch (const Error& error) {
      fail(error.code(), "element {} of {}: {}; choose other tensors, or another factor", where.element,
           target.path, error.what());
    }
  }

  Drawn finish() {
    Drawn drawn;
    drawn.redrawn = redrawn_;
    drawn.upsets = shares_;
    const auto less = [](const Placed& a, const Placed& b) { return a.flat < b.flat; };
    if (!std::is_sorted(changes_.begin(), changes_.end(), less))
      std::sort(changes_.begin(), changes_.end(), less);
    for (const Target& target : population_.targets()) {
      drawn.list.sites.push_back({target.path, target.role, target.format.name(), model_.plane, {}});
    }
    drawn.list.changes.assign(changes_.begin(), changes_.end());
    return drawn;
  }

  const record::FaultModel& model_;
  const Population& population_;
  Alteration kind_;
  OldValues values_;
  std::uint64_t value_key_ = key("inject.value");
  std::vector<Sample> batch_;
  std::vector<Placed> changes_;
  PlaceIndex index_;
  std::vector<UpsetShare> shares_;
  std::uint64_t placed_ = 0;
  std::uint64_t redrawn_ = 0;
};

}  // namespace

void check_model(const record::FaultModel& model) {
  const Alteration kind(model);
  if (int{model.count.has_value()} + int{model.fraction.has_value()} + int{model.ber.has_value()} != 1) {
    fail_at(ErrorCode::bad_input, "count",
            "give the number of faults with exactly one of --count, --fraction and --ber");
  }
  if (model.fraction && !(*model.fraction > 0 && *model.fraction <= 1)) {
    fail_at(ErrorCode::bad_input, "fraction", "--fraction {} is not above 0 and at most 1", *model.fraction);
  }
  if (model.ber && !(*model.ber > 0 && *model.ber <= 1)) {
    fail_at(ErrorCode::bad_input, "ber", "--ber {} is not above 0 and at most 1", *model.ber);
  }
  if (model.count && *model.count == 0) {
    fail_at(ErrorCode::bad_input, "count", "--count is 0: give at least 1");
  }
  if (model.fraction && model.measure == record::Measure::tensor) {
    fail_at(ErrorCode::bad_input, "fraction",
            "--fraction counts elements, so it cannot be used with --measure tensor");
  }
  if (model.ber && (model.measure != record::Measure::bit || !kind.single_bits())) {
    fail_at(ErrorCode::bad_input, "ber",
            "--ber hits each bit independently: use it only with --what flip, stuck-at-0 or stuck-at-1 and "
            "--measure bit");
  }
}

Drawn draw_from(const ckpt::Reader& reader, const record::FaultModel& model, const Population& population) {
  return Draw(reader, model, population).run();
}

}  // namespace bitrift::inject
