#include "inject/population.h"

#include <algorithm>

#include "core/error.h"
#include "inject/selection.h"

namespace bitrift::inject {
namespace {

constexpr std::uint64_t largest = std::uint64_t{1} << 63;

/// The last i with starts[i] <= index.
std::size_t find_start(const std::vector<std::uint64_t>& starts, std::uint64_t index) {
  return static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), index) - starts.begin()) - 1;
}

record::FaultModel flips_of(const std::string& bits, bool keep_sign) {
  record::FaultModel model;
  model.bits = bits;
  model.keep_sign = keep_sign;
  return model;
}

// What a tensor needs for this kind of fault, for the message that none has it.
std::string needed(const record::FaultModel& model) {
  const std::string sign = model.keep_sign ? " besides the sign" : "";
  if (model.what == "burst")
    return fmt::format("{} adjacent bits of '{}'{}", *model.length, model.bits, sign);
  if (model.what == "xor") {
    return fmt::format("all bits of the mask {} within '{}'{}{}", model.mask, model.bits, sign,
                       model.mask_at == "random" ? "" : ", aligned to bit 0");
  }
  // NaN and infinity exist where there is an exponent.
  const bool exponent = model.what == "nan" || model.what == "inf";
  return fmt::format("a bit of '{}'{}", exponent ? "exponent" : model.bits, sign);
}

}  // namespace

Population::Population(const ckpt::Reader& reader, const std::vector<std::string>& tensors,
                       const std::vector<std::string>& roles, const std::string& bits, bool keep_sign) {
  check_bit_field(bits);
  const record::FaultModel model = flips_of(bits, keep_sign);
  fill(reader, {.tensors = tensors, .roles = roles, .layers = {}, .as = {}, .scope = {}}, Alteration(model),
       needed(model));
}

Population::Population(const ckpt::Reader& reader, const record::FaultModel& model) {
  const Alteration kind(model);
  check_bit_field(model.bits);
  fill(reader, {model.tensors, model.roles, model.layers, model.as, model.scope, model.seed}, kind,
       needed(model));
}

void Population::fill(const ckpt::Reader& reader, const Choice& choice, const Alteration& kind,
                      const std::string& asked) {
  const std::vector<Chosen> chosen = choose(reader, choice);
  for (const auto& [tensor, format] : chosen) {
    Target target{tensor->path, tensor->role, format, tensor->elements(), {}};
    try {
      target.bits = kind.places(format);
    } catch (const Error& error) {
      fail(error.code(), "{}: {}: {}", reader.path().string(), tensor->path, error.what());
    }
    if (target.bits.empty()) continue;
    first_.push_back(total_);
    first_element_.push_back(elements_);
    std::uint64_t size = 0;
    if (__builtin_mul_overflow(target.elements, std::uint64_t{target.bits.size()}, &size) ||
        __builtin_add_overflow(total_, size, &total_) || total_ > largest) {
      fail(ErrorCode::bad_input, "{}: more than 2^63 bits are targeted; choose fewer tensors",
           reader.path().string());
    }
    elements_ += target.elements;
    targets_.push_back(std::move(target));
  }
  if (targets_.empty()) {
    fail(ErrorCode::bad_input, "{}: none of the {} chosen tensors has {}", reader.path().string(),
         chosen.size(), asked);
  }
}

Population::Location Population::locate(std::uint64_t index) const {
  if (index >= total_) fail(ErrorCode::internal, "bit {} of a population of {}", index, total_);
  const std::size_t at = find_start(first_, index);
  const Target& target = targets_[at];
  const std::uint64_t inside = index - first_[at];
  return {&target, inside / target.bits.size(), target.bits[inside % target.bits.size()]};
}

Population::Location Population::locate_element(std::uint64_t index) const {
  if (index >= elements_) fail(ErrorCode::internal, "element {} of a population of {}", index, elements_);
  const std::size_t at = find_start(first_element_, index);
  return {&targets_[at], index - first_element_[at], targets_[at].bits.front()};
}

std::uint64_t Population::flat_element(const Location& where) const noexcept {
  return first_element_[static_cast<std::size_t>(where.target - targets_.data())] + where.element;
}

}  // namespace bitrift::inject
