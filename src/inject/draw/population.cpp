#include "inject/draw/population.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/error.h"
#include "inject/draw/selection.h"

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

// What a tensor needs for this kind of fault, for the message that no tensor has it.
std::string needed(const record::FaultModel& model) {
  const std::string sign = model.keep_sign ? " besides the sign" : "";
  if (model.what == record::FaultKind::burst)
    return fmt::format("{} adjacent bits of '{}'{}", *model.length, model.bits, sign);
  if (model.what == record::FaultKind::mask) {
    return fmt::format("all bits of the mask {} within '{}'{}{}", model.mask, model.bits, sign,
                       model.mask_at == record::MaskPlace::random ? "" : ", aligned to bit 0");
  }
  // NaN and infinity exist where there is an exponent.
  const bool exponent = model.what == record::FaultKind::nan || model.what == record::FaultKind::infinity;
  return fmt::format("a bit of '{}'{}", exponent ? "exponent" : model.bits, sign);
}

/// Filtered bytes can be flipped; they are not numbers.
void check_packed(const std::string& file, const std::string& path, const record::FaultModel& model) {
  const auto refuse = [&](const std::string& why) {
    fail(
        ErrorCode::bad_input,
        "{}: {} is stored through filters, so on plane storage its stored bytes {}; choose other tensors, or "
        "--plane value",
        file, path, why);
  };
  if (model.what != record::FaultKind::flip)
    refuse("can be flipped only (--what " + std::string(name_of(model.what)) + ")");
  if (model.bits != "any") refuse("have no bit fields (--bits " + model.bits + ")");
  if (model.keep_sign) refuse("have no sign to keep");
  if (!model.allow_nan) refuse("have no NaN to forbid");
  if (model.element) refuse("have no elements to choose (--element)");
}

/// An element belongs to exactly one tensor.
void check_element(const std::string& file, const record::FaultModel& model,
                   const std::vector<Chosen>& chosen) {
  if (!model.element) return;
  if (chosen.size() > 1) {
    fail_at(ErrorCode::bad_input, "element",
            "{}: --element {} needs one tensor, but {} are chosen ({}, {}{}): choose one with --tensor", file,
            *model.element, chosen.size(), chosen[0].tensor->path, chosen[1].tensor->path,
            chosen.size() > 2 ? ", ..." : "");
  }
  const ckpt::TensorInfo& tensor = *chosen.front().tensor;
  if (*model.element < tensor.elements()) return;
  fail_at(ErrorCode::bad_input, "element", "{}: --element {}: {} has {} elements, with numbers from 0 to {}",
          file, *model.element, tensor.path, tensor.elements(), tensor.elements() - 1);
}

/// The chunks of a dataset hold all parts of its elements together.
void check_whole(const ckpt::Reader& reader, const std::string& dataset, const std::vector<Chosen>& chosen) {
  for (const ckpt::TensorInfo& part : reader.tensors()) {
    if (part.holder != dataset || !part.format) continue;
    if (std::any_of(chosen.begin(), chosen.end(), [&](const Chosen& one) { return one.tensor == &part; }))
      continue;
    fail(ErrorCode::bad_input,
         "{}: {} is stored through filters, and its stored bytes hold all of its parts: on plane storage "
         "choose {} "
         "too, or the whole with --tensor {}",
         reader.path().string(), dataset, part.path, dataset);
  }
}

}  // namespace

Population::Population(const ckpt::Reader& reader, const std::vector<std::string>& tensors,
                       const std::vector<std::string>& roles, const std::string& bits, bool keep_sign) {
  record::FaultModel model = flips_of(bits, keep_sign);
  model.tensors = tensors;
  model.roles = roles;
  fill(reader, model);
}

Population::Population(const ckpt::Reader& reader, const record::FaultModel& model) { fill(reader, model); }

void Population::fill(const ckpt::Reader& reader, const record::FaultModel& model) {
  const Alteration kind(model);
  check_bit_field(model.bits);
  const std::string file = reader.path().string();
  const std::vector<Chosen> chosen = choose(reader, choice_of(model));
  check_element(file, model, chosen);
  std::set<std::string> packed;  // datasets with filters that are already targets
  for (const auto& [tensor, format] : chosen) {
    if (model.plane == record::Plane::storage && tensor->storage == ckpt::storage_of_packed_file) {
      fail(ErrorCode::unsupported,
           "{}: {} is in a file that is deflated as a whole, so its stored bytes belong to other tensors "
           "too: unpack that file from the archive (`unzip`), and alter it by itself",
           file, tensor->path);
    }
    if (model.plane == record::Plane::storage && has_filters(*tensor)) {
      const std::string& path = dataset_of(*tensor);
      check_packed(file, path, model);
      if (!packed.insert(path).second) continue;
      if (!tensor->holder.empty()) check_whole(reader, path, chosen);
      auto stored = std::make_shared<const StoredBytes>(reader, path);
      const std::uint64_t bytes = stored->bytes();
      add(file, {path,
                 tensor->role,
                 number_format("uint8").value(),
                 bytes,
                 {0, 1, 2, 3, 4, 5, 6, 7},
                 std::move(stored)});
      continue;
    }
    Target target{tensor->path, tensor->role, format, model.element ? 1 : tensor->elements(), {}, {}};
    target.first = model.element.value_or(0);
    try {
      target.bits = kind.places(format);
    } catch (const Error& error) {
      fail(error.code(), "{}: {}: {}", file, tensor->path, error.what());
    }
    add(file, std::move(target));
  }
  if (targets_.empty()) {
    fail(ErrorCode::bad_input, "{}: none of the {} chosen tensors has {}", file, chosen.size(),
         needed(model));
  }
}

void Population::add(const std::string& file, Target target) {
  if (target.bits.empty() || target.elements == 0) return;
  first_.push_back(total_);
  first_element_.push_back(elements_);
  std::uint64_t size = 0;
  if (__builtin_mul_overflow(target.elements, std::uint64_t{target.bits.size()}, &size) ||
      __builtin_add_overflow(total_, size, &total_) || total_ > largest) {
    fail(ErrorCode::bad_input, "{}: more than 2^63 bits are targeted; choose fewer tensors", file);
  }
  elements_ += target.elements;
  targets_.push_back(std::move(target));
}

Population::Location Population::locate(std::uint64_t index) const {
  if (index >= total_) fail(ErrorCode::internal, "bit {} of a population of {}", index, total_);
  const std::size_t at = find_start(first_, index);
  const Target& target = targets_[at];
  const std::uint64_t inside = index - first_[at];
  return {&target, target.first + inside / target.bits.size(), target.bits[inside % target.bits.size()]};
}

Population::Location Population::locate_element(std::uint64_t index) const {
  if (index >= elements_) fail(ErrorCode::internal, "element {} of a population of {}", index, elements_);
  const std::size_t at = find_start(first_element_, index);
  const Target& target = targets_[at];
  return {&target, target.first + index - first_element_[at], target.bits.front()};
}

std::uint64_t Population::flat_element(const Location& where) const noexcept {
  const auto at = static_cast<std::size_t>(where.target - targets_.data());
  return first_element_[at] + where.element - where.target->first;
}

}  // namespace bitrift::inject
