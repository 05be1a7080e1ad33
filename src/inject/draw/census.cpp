#include "inject/draw/census.h"

#include <algorithm>
#include <array>
#include <bit>
#include <exception>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

#include "core/error.h"

namespace bitrift::inject {
namespace {

constexpr std::uint64_t census_block = std::uint64_t{1} << 22;

/// Counts the elements of a tensor by class of value; the policies treat all values of a class alike.
using Histogram = std::vector<std::uint64_t>;

/// The class of a value: the exponent, or the whole pattern of 8 bits.
class Classes {
 public:
  Classes(const NumberFormat& format, bool exponent)
      : shift_(exponent ? format.mantissa_bits : 0),
        mask_(exponent ? (std::uint64_t{1} << format.exponent_bits) - 1 : format.mask()) {}
  [[nodiscard]] std::size_t count() const noexcept { return mask_ + 1; }
  [[nodiscard]] std::size_t of(std::uint64_t pattern) const noexcept { return pattern >> shift_ & mask_; }
  [[nodiscard]] std::uint64_t pattern(std::size_t of_class) const noexcept { return of_class << shift_; }

 private:
  unsigned shift_;
  std::uint64_t mask_;
};

/// Calls visit(pattern) for the elements [first, end) of a target.
template <typename Visit>
void for_values(const ckpt::Reader& reader, const Target& target, std::uint64_t first, std::uint64_t end,
                Visit visit) {
  const ckpt::TensorInfo& tensor = *reader.find(target.path);
  NumberFormat format = target.format;
  format.order = ByteOrder::little;  // read_elements converts the byte order
  const std::uint64_t step = census_block / format.bytes;
  std::vector<std::uint8_t> block;
  for (; first < end; first += step) {
    const std::uint64_t count = std::min(step, end - first);
    block.resize(count * format.bytes);
    reader.read_elements(tensor, first, count, block.data());
    for (std::uint64_t i = 0; i < count; ++i) visit(load_pattern(format, block.data() + i * format.bytes));
  }
}

/// Runs scan(first, end, out) over the elements of a target on two threads if that pays off: not if both
/// would decode chunks and push out each other's cached ones.
template <typename Result, typename Scan>
Result scan_values(const ckpt::TensorInfo& tensor, const Target& target, const Result& zero, Scan scan) {
  const std::uint64_t elements = target.elements;
  const std::uint64_t begin = target.first;
  Result first = zero;
  if (!tensor.offset || elements < (std::uint64_t{1} << 20) || std::thread::hardware_concurrency() < 2) {
    scan(begin, begin + elements, first);
    return first;
  }
  Result second = zero;
  std::exception_ptr error;
  std::thread other([&] {
    try {
      scan(begin + elements / 2, begin + elements, second);
    } catch (...) {
      error = std::current_exception();
    }
  });
  try {
    scan(begin, begin + elements / 2, first);
  } catch (...) {
    other.join();
    throw;
  }
  other.join();
  if (error) std::rethrow_exception(error);
  for (std::size_t i = 0; i < first.size(); ++i) first[i] += second[i];
  return first;
}

/// Adds up one target's share of every stratum.
class Counter {
 public:
  Counter(const ckpt::Reader& reader, const record::FaultModel& model)
      : reader_(reader), model_(model), kind_(model) {}

  void add(const Target& target) {
    // Places by the fields that they touch.
    std::map<std::string, std::vector<unsigned>> groups;
    if (target.stored) {
      groups["any"] = target.bits;  // bytes behind filters have no fields
    } else if (kind_.whole()) {
      groups[model_.bits].push_back(target.bits.front());
    } else {
      for (const unsigned place : target.bits) {
        groups[field_names(target.format, kind_.touched(target.format, place))].push_back(place);
      }
    }
    all_.clear();
    for (const auto& [field, places] : groups) all_.push_back({field, &places});
    if (!kind_.looks_at_values(target.format)) {
      add_class(target, 0, target.elements, true);
    } else if (kind_.only_exponent_counts(target.format) || target.format.bytes == 1) {
      const Classes classes(target.format, kind_.only_exponent_counts(target.format));
      const auto scan = [&](std::uint64_t first, std::uint64_t end, Histogram& out) {
        for_values(reader_, target, first, end, [&](std::uint64_t pattern) { ++out[classes.of(pattern)]; });
      };
      const Histogram values =
          scan_values(*reader_.find(target.path), target, Histogram(classes.count(), 0), scan);
      for (std::size_t i = 0; i < values.size(); ++i) add_class(target, classes.pattern(i), values[i], false);
    } else {
      // Scaled numbers: all values with a finite product form one class.
      const auto scan = [&](std::uint64_t first, std::uint64_t end, Histogram& out) {
        for_values(reader_, target, first, end, [&](std::uint64_t pattern) {
          out[0] += kind_.accepts(target.format, pattern, 0) ? 1U : 0U;
        });
      };
      add_class(target, 0, scan_values(*reader_.find(target.path), target, Histogram(1, 0), scan)[0], true);
    }
    settle(target);
  }

  Census finish() {
    Census census;
    for (auto& [key, size] : strata_) {
      census.bits += size.bits;
      census.strata.push_back(std::move(size));
    }
    for (auto& [role, size] : roles_) {
      census.elements += size.elements;
      census.roles.push_back(std::move(size));
    }
    return census;
  }

 private:
  struct Group {
    std::string field;
    const std::vector<unsigned>* places;
    std::uint64_t elements = 0;
    std::uint64_t bits = 0;
  };

  void add_class(const Target& target, std::uint64_t pattern, std::uint64_t elements, bool accepted) {
    if (elements == 0) return;
    bool any = false;
    for (Group& group : all_) {
      std::uint64_t members = 0;
      for (const unsigned place : *group.places) {
        if (!accepted && !kind_.accepts(target.format, pattern, place)) continue;
        members += kind_.whole()
                       ? static_cast<std::uint64_t>(std::popcount(kind_.touched(target.format, place)))
                       : 1;
      }
      std::uint64_t bits = 0;
      if (__builtin_mul_overflow(elements, members, &bits) || bits >> 63 != 0) {
        fail(ErrorCode::bad_input, "{}: more than 2^63 bits are targeted; choose fewer tensors", target.path);
      }
      group.bits += bits;
      if (members > 0) group.elements += elements;
      any = any || members > 0;
    }
    if (any) touched_elements_ += elements;
  }

  void settle(const Target& target) {
    static constexpr std::array order = {"sign", "exponent", "mantissa"};
    StratumSize& role = roles_.try_emplace(target.role, StratumSize{target.role, "", 0, 0, 0}).first->second;
    role.elements += std::exchange(touched_elements_, 0);
    role.tensors += 1;
    for (const Group& group : all_) {
      const auto rank = std::find(order.begin(), order.end(), group.field) - order.begin();
      StratumSize& size =
          strata_
              .try_emplace({target.role, rank, group.field}, StratumSize{target.role, group.field, 0, 0, 0})
              .first->second;
      size.tensors += group.bits > 0 ? 1 : 0;
      size.elements += group.elements;
      size.bits += group.bits;
      role.bits += group.bits;
    }
  }

  const ckpt::Reader& reader_;
  const record::FaultModel& model_;
  Alteration kind_;
  std::vector<Group> all_;  // of the current target
  std::uint64_t touched_elements_ = 0;
  std::map<std::tuple<std::string, std::ptrdiff_t, std::string>, StratumSize> strata_;
  std::map<std::string, StratumSize> roles_;
};

}  // namespace

std::string field_names(const NumberFormat& format, std::uint64_t bits) {
  std::string names;
  for (const char* const name : {"sign", "exponent", "mantissa"}) {
    for (std::uint64_t rest = bits; rest != 0; rest &= rest - 1) {
      if (field_of_bit(format, static_cast<unsigned>(std::countr_zero(rest))) != name) continue;
      names += (names.empty() ? "" : "+") + std::string(name);
      break;
    }
  }
  return names;
}

Census count_eligible(const ckpt::Reader& reader, const record::FaultModel& model,
                      const Population& population) {
  Counter counter(reader, model);
  for (const Target& target : population.targets()) counter.add(target);
  return counter.finish();
}

}  // namespace bitrift::inject
