#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "ckpt/roles.h"
#include "core/error.h"
#include "core/glob.h"
#include "inject/plan.h"

namespace bitrift::inject {
namespace {

/// Counts what each glob and each role brought, so that none is ignored in silence.
class Selection {
 public:
  Selection(const ckpt::Reader& reader, const std::vector<std::string>& globs,
            const std::vector<std::string>& roles)
      : file_(reader.path().string()), globs_(globs), roles_(roles) {
    check_roles();
    for (const ckpt::TensorInfo& tensor : reader.tensors()) consider(tensor);
    check_used(reader);
    if (chosen_.empty()) fail(ErrorCode::bad_input, "{}: holds no tensor that could be altered", file_);
  }
  [[nodiscard]] const std::vector<const ckpt::TensorInfo*>& tensors() const noexcept { return chosen_; }

 private:
  void check_roles() const {
    const auto& known = ckpt::role_names();
    for (const std::string& role : roles_) {
      if (std::find(known.begin(), known.end(), role) == known.end()) {
        fail(ErrorCode::bad_input, "'{}' is not a role: give one of {}", role, fmt::join(known, ", "));
      }
      if (role == "checksum") {
        fail(ErrorCode::unsupported, "role checksum cannot be altered: checksums follow from the tensors");
      }
    }
  }

  void consider(const ckpt::TensorInfo& tensor) {
    std::vector<std::string> globs;
    for (const std::string& glob : globs_) {
      if (glob_match(glob, tensor.path)) globs.push_back(glob);
    }
    if (!globs_.empty() && globs.empty()) return;
    if (!roles_.empty() && std::find(roles_.begin(), roles_.end(), tensor.role) == roles_.end()) return;
    if (tensor.role == "checksum") {
      // Wildcards pass checksums over; a pattern that means nothing else is answered in check_used().
      checksum_globs_.insert(globs.begin(), globs.end());
      return;
    }
    used_globs_.insert(globs.begin(), globs.end());
    used_roles_.insert(tensor.role);
    // Nothing was asked for by name: texts are no part of "all tensors".
    if (globs_.empty() && tensor.dtype.ends_with("string")) return;
    if (tensor.elements() == 0 && tensor.format) return;
    if (!tensor.refusal.empty()) {
      fail(ErrorCode::unsupported, "{}: {} cannot be altered: {}{}", file_, tensor.path, tensor.refusal,
           globs_.empty() ? "; choose other tensors with --tensor or --role" : "");
    }
    chosen_.push_back(&tensor);
  }

  void check_used(const ckpt::Reader& reader) const {
    for (const std::string& glob : globs_) {
      if (used_globs_.contains(glob)) continue;
      if (checksum_globs_.contains(glob)) {
        fail(ErrorCode::unsupported,
             "{}: '{}' names checksums, which follow from the tensors; alter a tensor instead", file_, glob);
      }
      fail(ErrorCode::not_found,
           "{}: no tensor{} matches '{}' (* stays within one name, ** crosses . and /; see "
           "bitrift ls)",
           file_, roles_.empty() ? "" : " of the asked roles", glob);
    }
    std::set<std::string> present;
    for (const auto& tensor : reader.tensors()) present.insert(tensor.role);
    for (const std::string& role : roles_) {
      if (used_roles_.contains(role)) continue;
      fail(ErrorCode::not_found, "{}: no tensor{} has the role '{}' (the file has {})", file_,
           globs_.empty() ? "" : " of the asked names", role, fmt::join(present, ", "));
    }
  }

  std::string file_;
  const std::vector<std::string>& globs_;
  const std::vector<std::string>& roles_;
  std::set<std::string> used_globs_, used_roles_, checksum_globs_;
  std::vector<const ckpt::TensorInfo*> chosen_;
};

std::vector<unsigned> eligible_bits(const NumberFormat& format, const std::string& field, bool keep_sign) {
  std::vector<unsigned> bits = bit_field(format, field);
  if (keep_sign) std::erase_if(bits, [&](unsigned bit) { return field_of_bit(format, bit) == "sign"; });
  return bits;
}

/// The last i with starts[i] <= index.
std::size_t find_start(const std::vector<std::uint64_t>& starts, std::uint64_t index) {
  return static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), index) - starts.begin()) - 1;
}

}  // namespace

Population::Population(const ckpt::Reader& reader, const std::vector<std::string>& tensors,
                       const std::vector<std::string>& roles, const std::string& bits, bool keep_sign) {
  check_bit_field(bits);
  const Selection selection(reader, tensors, roles);
  for (const ckpt::TensorInfo* tensor : selection.tensors()) {
    Target target{tensor->path, tensor->role, *tensor->format, tensor->elements(),
                  eligible_bits(*tensor->format, bits, keep_sign)};
    if (target.bits.empty()) continue;
    first_.push_back(total_);
    first_element_.push_back(elements_);
    total_ += target.size();
    elements_ += target.elements;
    targets_.push_back(std::move(target));
  }
  if (targets_.empty()) {
    fail(ErrorCode::bad_input, "{}: none of the {} chosen tensors has a bit of '{}'{}",
         reader.path().string(), selection.tensors().size(), bits, keep_sign ? " besides the sign" : "");
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

}  // namespace bitrift::inject
