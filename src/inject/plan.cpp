#include "inject/plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/permutation.h"
#include "core/philox.h"

namespace bitrift::inject {
namespace {

using Location = Population::Location;

std::uint64_t read_pattern(const ckpt::Reader& reader, const ckpt::TensorInfo& tensor,
                           std::uint64_t element) {
  std::uint8_t stored[8] = {};
  reader.read_elements(tensor, element, 1, stored);
  NumberFormat format = *tensor.format;
  format.order = ByteOrder::little;  // read_elements has turned the bytes already
  return load_pattern(format, stored);
}

const ckpt::TensorInfo& alterable(const ckpt::Reader& reader, const std::string& path) {
  const ckpt::TensorInfo* const tensor = reader.find(path);
  if (tensor == nullptr) fail(ErrorCode::not_found, "{}: has no tensor {}", reader.path().string(), path);
  if (!tensor->refusal.empty()) {
    fail(ErrorCode::unsupported, "{}: {} cannot be altered: {}", reader.path().string(), path,
         tensor->refusal);
  }
  return *tensor;
}

std::string common_field(const NumberFormat& format, const std::vector<unsigned>& bits) {
  std::string field;
  for (const unsigned bit : bits) {
    const std::string one = field_of_bit(format, bit);
    if (!field.empty() && field != one) return "mixed";
    field = one;
  }
  return field;
}

std::vector<unsigned> all_bits(const NumberFormat& format, bool keep_sign) {
  std::vector<unsigned> bits = bit_field(format, "any");
  if (keep_sign) std::erase_if(bits, [&](unsigned bit) { return field_of_bit(format, bit) == "sign"; });
  return bits;
}

std::uint64_t set_pattern(const NumberFormat& format, const std::string& what) {
  if (what == "zero") return 0;
  return what == "nan" ? nan_pattern(format) : infinity_pattern(format);
}

/// `value` in the given bits, `old` elsewhere.
std::uint64_t blend(std::uint64_t old, std::uint64_t value, const std::vector<unsigned>& bits) {
  std::uint64_t mask = 0;
  for (const unsigned bit : bits) mask |= std::uint64_t{1} << bit;
  return (old & ~mask) | (value & mask);
}

void check_model(const record::FaultModel& model) {
  const auto one_of = [](const std::string& text, std::initializer_list<const char*> names,
                         const char* option) {
    std::string list;
    for (const char* name : names) {
      if (text == name) return;
      list += (list.empty() ? "" : ", ") + std::string(name);
    }
    fail(ErrorCode::bad_input, "{} '{}' is not supported: give one of {}", option, text, list);
  };
  one_of(model.what, {"flip", "zero", "nan", "inf"}, "--what");
  one_of(model.measure, {"bit", "element", "tensor"}, "--measure");
  if (int{model.count.has_value()} + int{model.fraction.has_value()} + int{model.ber.has_value()} != 1) {
    fail(ErrorCode::bad_input, "say how many faults with exactly one of --count, --fraction and --ber");
  }
  if (model.fraction && !(*model.fraction > 0 && *model.fraction <= 1)) {
    fail(ErrorCode::bad_input, "--fraction {} is not above 0 and at most 1", *model.fraction);
  }
  if (model.ber && !(*model.ber > 0 && *model.ber <= 1)) {
    fail(ErrorCode::bad_input, "--ber {} is not above 0 and at most 1", *model.ber);
  }
  if (model.count && *model.count == 0)
    fail(ErrorCode::bad_input, "--count 0 asks for nothing: give at least 1");
  if (model.fraction && model.measure == "tensor") {
    fail(ErrorCode::bad_input, "--fraction counts elements, so it does not go with --measure tensor");
  }
  if (model.ber && (model.measure != "bit" || model.what != "flip")) {
    fail(ErrorCode::bad_input,
         "--ber flips each bit independently: it goes with --what flip and --measure bit only");
  }
  if (model.what != "flip" && model.bits != "any") {
    fail(ErrorCode::bad_input, "--bits chooses bits to flip, and --what {} sets whole elements", model.what);
  }
  if (!model.allow_nan && (model.what == "nan" || model.what == "inf")) {
    fail(ErrorCode::bad_input, "--no-nan forbids what --what {} asks for", model.what);
  }
}

/// Draws samples one by one and keeps those that the policies allow. The streams are those of docs/faults.md.
class Draw {
 public:
  Draw(const ckpt::Reader& reader, const record::FaultModel& model)
      : reader_(reader), model_(model), population_(population_of(reader, model)) {}

  Plan run() {
    if (model_.ber) {
      by_error_rate();
    } else if (model_.what != "flip" || model_.fraction || model_.measure == "element") {
      if (model_.measure == "tensor")
        by_tensor(wanted(population_.elements()));
      else
        by_element(wanted(population_.elements()));
    } else if (model_.measure == "tensor") {
      by_tensor(wanted(population_.bits()));
    } else {
      by_bit(wanted(population_.bits()));
    }
    return finish();
  }

 private:
  struct Change {
    std::uint64_t old_pattern = 0;
    std::uint64_t new_pattern = 0;
    std::vector<unsigned> bits;
  };

  [[nodiscard]] std::uint64_t key(const char* purpose) const { return derive_key(model_.seed, purpose); }

  [[nodiscard]] std::uint64_t wanted(std::uint64_t most) const {
    if (!model_.count) {
      const double share = *model_.fraction * static_cast<double>(population_.elements());
      const auto count = std::min(static_cast<std::uint64_t>(std::llround(share)), population_.elements());
      if (count > 0) return count;
      fail(ErrorCode::bad_input, "--fraction {} of {} elements is less than half an element: give more",
           *model_.fraction, population_.elements());
    }
    if (*model_.count <= most) return *model_.count;
    fail(ErrorCode::bad_input, "--count {} is more than the {} {} that are targeted", *model_.count, most,
         most == population_.bits() ? "bits" : "elements");
  }

  [[noreturn]] void exhausted(std::uint64_t count) const {
    fail(ErrorCode::bad_input,
         "only {} of the {} faults can be placed: all other draws give NaN or infinity, which "
         "--no-nan forbids",
         placed_, count);
  }

  void by_bit(std::uint64_t count) {
    const Permutation order(population_.bits(), key("inject"));
    for (std::uint64_t i = 0; placed_ < count; ++i) {
      if (i == order.size()) exhausted(count);
      place(population_.locate(order(i)));
    }
  }

  void by_element(std::uint64_t count) {
    const Permutation order(population_.elements(), key("inject.element"));
    const std::uint64_t bit_key = key("inject.bit");
    for (std::uint64_t i = 0; placed_ < count; ++i) {
      if (i == order.size()) exhausted(count);
      Location where = population_.locate_element(order(i));
      where.bit = where.target->bits[random_below(bit_key, i, 0, where.target->bits.size())];
      place(where);
    }
  }

  void by_tensor(std::uint64_t count) {
    const std::uint64_t tensor_key = key("inject.tensor");
    const std::uint64_t element_key = key("inject.tensor.element");
    const std::uint64_t bit_key = key("inject.tensor.bit");
    const std::uint64_t most = 1'000'000 + 1'000 * std::min<std::uint64_t>(count, 1'000'000'000);
    for (std::uint64_t i = 0; placed_ < count; ++i) {
      if (i == most) {
        fail(ErrorCode::bad_input,
             "{} draws of --measure tensor placed only {} of {} faults: the small tensors are "
             "used up; give a smaller --count",
             most, placed_, count);
      }
      const auto& targets = population_.targets();
      const Target& target = targets[random_below(tensor_key, i, 0, targets.size())];
      place({&target, random_below(element_key, i, 0, target.elements),
             target.bits[random_below(bit_key, i, 0, target.bits.size())]});
    }
  }

  /// Gaps between flipped bits are geometric, so the cost is one draw a flip.
  void by_error_rate() {
    const double rate = *model_.ber;
    const std::uint64_t gap_key = key("inject.ber");
    std::uint64_t refused = 0;
    std::uint64_t bit = 0;
    for (std::uint64_t i = 0;; ++i) {
      const double gap =
          rate < 1 ? std::floor(std::log1p(-random_unit(gap_key, i, 0)) / std::log1p(-rate)) : 0;
      if (gap >= static_cast<double>(population_.bits() - bit)) break;
      bit += static_cast<std::uint64_t>(gap);
      if (bit >= population_.bits()) break;
      if (!place(population_.locate(bit))) ++refused;
      if (++bit == population_.bits()) break;
    }
    const std::uint64_t count = placed_ + refused;
    const Permutation order(population_.bits(), key("inject"));
    for (std::uint64_t i = 0; placed_ < count; ++i) {
      if (i == order.size()) exhausted(count);
      place(population_.locate(order(i)));
    }
  }

  /// False when the place was taken already or when a policy refuses the result (which is counted).
  bool place(const Location& where) {
    const auto index = static_cast<std::size_t>(where.target - population_.targets().data());
    const auto [at, is_new] = changes_.try_emplace({index, where.element});
    Change& change = at->second;
    const NumberFormat& format = where.target->format;
    const bool flip = model_.what == "flip";
    if (is_new) {
      const auto& tensor = *reader_.find(where.target->path);
      change.old_pattern = change.new_pattern = read_pattern(reader_, tensor, where.element);
    } else if (!flip || std::find(change.bits.begin(), change.bits.end(), where.bit) != change.bits.end()) {
      return false;
    }
    const std::vector<unsigned> bits = flip ? std::vector{where.bit} : all_bits(format, model_.keep_sign);
    const std::uint64_t value = flip ? ~change.new_pattern : set_pattern(format, model_.what);
    const std::uint64_t pattern = blend(change.new_pattern, value, bits);
    if (!model_.allow_nan && format.kind == NumberKind::floating &&
        !std::isfinite(decode_number(format, pattern))) {
      if (is_new) changes_.erase(at);
      ++redrawn_;
      return false;
    }
    change.new_pattern = pattern;
    change.bits.insert(change.bits.end(), bits.begin(), bits.end());
    ++placed_;
    return true;
  }

  Plan finish() {
    Plan result;
    for (const Target& target : population_.targets()) {
      const bool flip = model_.what == "flip";
      const std::size_t bits = flip ? target.bits.size() : all_bits(target.format, model_.keep_sign).size();
      result.eligible_bits += target.elements * bits;
    }
    result.eligible_elements = population_.elements();
    result.redrawn = redrawn_;
    for (auto& [where, change] : changes_) {
      const Target& target = population_.targets()[where.first];
      std::sort(change.bits.begin(), change.bits.end());
      result.faults.push_back({.tensor = target.path,
                               .role = target.role,
                               .element = where.second,
                               .dtype = target.format.name(),
                               .bits = change.bits,
                               .field = common_field(target.format, change.bits),
                               .old_pattern = change.old_pattern,
                               .new_pattern = change.new_pattern});
    }
    return result;
  }

  const ckpt::Reader& reader_;
  const record::FaultModel& model_;
  Population population_;
  std::map<std::pair<std::size_t, std::uint64_t>, Change> changes_;  // by tensor (path order), then element
  std::uint64_t placed_ = 0;
  std::uint64_t redrawn_ = 0;
};

}  // namespace

Population population_of(const ckpt::Reader& reader, const record::FaultModel& model) {
  check_model(model);
  // NaN and infinity exist where there is an exponent: asking for that field leaves integers out.
  const bool needs_exponent = model.what == "nan" || model.what == "inf";
  return {reader, model.tensors, model.roles, needs_exponent ? "exponent" : model.bits, model.keep_sign};
}

Plan plan(const ckpt::Reader& reader, const record::FaultModel& model) {
  if (model.plane == "metadata") return plan_metadata(reader, model);
  Plan drawn = Draw(reader, model).run();
  for (record::AppliedFault& fault : drawn.faults) fault.plane = model.plane;
  return drawn;
}

record::AppliedFault flip_at(const ckpt::Reader& reader, const Location& where) {
  const ckpt::TensorInfo& tensor = alterable(reader, where.target->path);
  if (where.element >= tensor.elements() || where.bit >= tensor.format->bits()) {
    fail(ErrorCode::bad_input, "{}: {} has no bit {} of element {}", reader.path().string(), tensor.path,
         where.bit, where.element);
  }
  const std::uint64_t old_pattern = read_pattern(reader, tensor, where.element);
  return {.tensor = tensor.path,
          .role = tensor.role,
          .element = where.element,
          .dtype = tensor.format->name(),
          .bits = {where.bit},
          .field = field_of_bit(*tensor.format, where.bit),
          .old_pattern = old_pattern,
          .new_pattern = old_pattern ^ (std::uint64_t{1} << where.bit)};
}

std::vector<record::AppliedFault> whole_tensor(const ckpt::Reader& reader, const std::string& path,
                                               const std::string& what) {
  const ckpt::TensorInfo& tensor = alterable(reader, path);
  const NumberFormat& format = *tensor.format;
  if (what != "negate" && what != "nan") fail(ErrorCode::bad_input, "'{}' is neither negate nor nan", what);
  if (format.kind != NumberKind::floating) {
    fail(ErrorCode::unsupported, "{}: {} is {}: only floating tensors can be negated or set to NaN",
         reader.path().string(), path, format.name());
  }
  const std::vector<unsigned> bits = what == "nan" ? bit_field(format, "any") : bit_field(format, "sign");
  std::vector<std::uint8_t> stored(tensor.elements() * format.bytes);
  reader.read(tensor, stored.data(), stored.size());
  NumberFormat in_memory = format;
  in_memory.order = ByteOrder::little;
  std::vector<record::AppliedFault> faults;
  faults.reserve(tensor.elements());
  for (std::uint64_t element = 0; element < tensor.elements(); ++element) {
    const std::uint64_t old_pattern = load_pattern(in_memory, stored.data() + element * format.bytes);
    const std::uint64_t value = what == "nan" ? nan_pattern(format) : ~old_pattern;
    faults.push_back({.tensor = path,
                      .role = tensor.role,
                      .element = element,
                      .dtype = format.name(),
                      .bits = bits,
                      .field = common_field(format, bits),
                      .old_pattern = old_pattern,
                      .new_pattern = blend(old_pattern, value, bits)});
  }
  return faults;
}

}  // namespace bitrift::inject
