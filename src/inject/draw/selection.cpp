#include "inject/draw/selection.h"

#include <algorithm>
#include <charconv>
#include <set>

#include <fmt/ranges.h>

#include "ckpt/dialect/roles.h"
#include "ckpt/format/half_byte_values.h"
#include "ckpt/tensor_hint.h"
#include "core/error.h"
#include "core/permutation.h"
#include "core/philox.h"
#include "core/text/glob.h"

namespace bitrift::inject {
namespace {

/// The number r in "replica/<r>/..."; -1 for other paths.
int replica_of(std::string_view path) {
  constexpr std::string_view prefix = "replica/";
  if (!path.starts_with(prefix)) return -1;
  int replica = -1;
  const char* const end = path.data() + path.size();
  const auto [rest, error] = std::from_chars(path.data() + prefix.size(), end, replica);
  return error == std::errc{} && rest != end && *rest == '/' && replica >= 0 ? replica : -1;
}

/// The replicas of a scope, among those that have tensors of their own; empty: the scope is `all`.
std::set<int> replicas_in(const ckpt::Reader& reader, const record::Scope& scope, std::uint64_t seed) {
  if (scope.all()) return {};
  const std::string file = reader.path().string();
  if (scope.stage >= 0) {
    fail_at(ErrorCode::unsupported, "scope",
            "{}: a file has no pipeline stages, only a run has; choose the stage's tensors with --tensor",
            file);
  }
  std::set<int> own;
  for (const ckpt::TensorInfo& tensor : reader.tensors()) own.insert(replica_of(tensor.path));
  own.erase(-1);
  if (own.empty()) {
    fail_at(
        ErrorCode::unsupported, "scope",
        "{}: holds no tensors of single replicas (replica/<r>/...), so every replica that loads it sees all "
        "faults; to limit them to some replicas, set the scope of a campaign's arm",
        file);
  }
  if (scope.count == 0) {
    for (const int replica : scope.replicas) {
      if (own.contains(replica)) continue;
      fail_at(ErrorCode::not_found, "scope",
              "{}: holds no tensors of replica {} alone (there are those of {})", file, replica,
              fmt::join(own, ", "));
    }
    return {scope.replicas.begin(), scope.replicas.end()};
  }
  if (static_cast<std::size_t>(scope.count) > own.size()) {
    fail_at(ErrorCode::bad_input, "scope",
            "{}: {} replicas cannot be drawn from the {} that have tensors of their own", file, scope.count,
            own.size());
  }
  const std::vector<int> list(own.begin(), own.end());
  const Permutation order(list.size(), derive_key(seed, "inject.scope"));
  std::set<int> drawn;
  for (int i = 0; i < scope.count; ++i) drawn.insert(list[order(static_cast<std::uint64_t>(i))]);
  return drawn;
}

/// Counts the matches of each glob and each role, so that none is ignored silently.
class Selection {
 public:
  Selection(const ckpt::Reader& reader, const Choice& choice)
      : reader_(reader),
        file_(reader.path().string()),
        choice_(choice),
        replicas_(replicas_in(reader, choice.scope, choice.seed)) {
    if (!choice.layers.empty()) layers_ = reader.layers().resolve(choice.layers, file_);
    check_roles();
    consider_all(reader.tensors());
    const auto& globs = choice.tensors;
    if (std::any_of(globs.begin(), globs.end(),
                    [](const auto& glob) { return glob.find('@') != glob.npos; })) {
      consider_all(reader.attribute_tensors());
    }
    check_left_out();
    check_used();
    check_shared();
    if (!chosen.empty()) return;
    if (skipped.empty()) fail(ErrorCode::bad_input, "{}: holds no tensor that could be altered", file_);
    fail(ErrorCode::unsupported, "{}: holds no tensor that could be altered; {}: {}", file_,
         skipped.front()->path, skipped.front()->refusal);
  }
  std::vector<Chosen> chosen;
  std::vector<const ckpt::TensorInfo*> skipped;  // they cannot be altered, and nobody asked for them

 private:
  void check_roles() const {
    const auto& known = ckpt::role_names();
    for (const std::string& role : choice_.roles) {
      if (std::find(known.begin(), known.end(), role) == known.end()) {
        fail_at(ErrorCode::bad_input, "roles", "'{}' is not a role: give one of {}", role,
                fmt::join(known, ", "));
      }
      if (role == "checksum") {
        fail_at(ErrorCode::unsupported, "roles",
                "role checksum cannot be altered: checksums are computed from the tensors");
      }
    }
  }

  /// An alias counts only if the tensor that it refers to does not, wherever that is in path order.
  void consider_all(const std::vector<ckpt::TensorInfo>& tensors) {
    const auto first = static_cast<std::ptrdiff_t>(chosen.size());
    for (const bool aliases : {false, true}) {
      for (const ckpt::TensorInfo& tensor : tensors) {
        if (tensor.alias_of.empty() == aliases) continue;
        consider(tensor);
      }
      std::sort(chosen.begin() + first, chosen.end(),
                [](const Chosen& a, const Chosen& b) { return a.tensor->path < b.tensor->path; });
    }
  }

  void consider(const ckpt::TensorInfo& tensor) {
    std::vector<std::string> globs;
    for (const std::string& glob : choice_.tensors) {
      if (glob_selects(glob, tensor.path, tensor.holder, tensor.attribute)) globs.push_back(glob);
    }
    if (globs.empty() && (!choice_.tensors.empty() || tensor.attribute)) return;
    if (is_excluded(tensor)) return;
    const auto& roles = choice_.roles;
    if (!roles.empty() && std::find(roles.begin(), roles.end(), tensor.role) == roles.end()) return;
    if (!choice_.layers.empty() && !layers_.contains(tensor.layer)) return;
    if (!replicas_.empty() && !replicas_.contains(replica_of(tensor.path))) return;
    if (tensor.role == "checksum") {
      // Wildcards skip checksums; check_used() reports a pattern that matches nothing else.
      checksum_globs_.insert(globs.begin(), globs.end());
      return;
    }
    if (tensor.left_out) {
      left_out_ = left_out_.empty() ? tensor.path : left_out_;
      left_out_globs_.insert(globs.begin(), globs.end());
      return;
    }
    used_globs_.insert(globs.begin(), globs.end());
    used_roles_.insert(tensor.role);
    used_layers_.insert(tensor.layer);
    const auto view = viewed(tensor);
    // No tensor was named: "all tensors" does not include texts.
    if (choice_.tensors.empty() && !view && tensor.dtype.ends_with("string")) return;
    // The dataset was named, not this member of it: that means its numbers, not its texts and padding.
    const bool named = std::any_of(globs.begin(), globs.end(),
                                   [&](const auto& glob) { return glob_match(glob, tensor.path); });
    if (!named && !tensor.holder.empty() && !tensor.format && !view) return;
    if (tensor.elements() == 0 && tensor.format) return;
    if (!tensor.refusal.empty() && !(view && tensor.refused_by_type)) {
      if (choice_.tensors.empty() && choice_.roles.empty() && choice_.layers.empty()) {
        skipped.push_back(&tensor);
        return;
      }
      fail_at(ErrorCode::unsupported, "tensors", "{}: {} cannot be altered: {}{}", file_, tensor.path,
              tensor.refusal,
              choice_.tensors.empty() ? "; choose other tensors with --tensor, or leave it out with --exclude"
                                      : "");
    }
    // Its elements are already a target.
    if (!tensor.alias_of.empty()) {
      if (chosen_paths_.contains(tensor.alias_of) || !aliased_.insert(tensor.alias_of).second) return;
    }
    chosen_paths_.insert(tensor.path);
    chosen.push_back({&tensor, view ? *view : *tensor.format});
  }

  [[nodiscard]] bool is_excluded(const ckpt::TensorInfo& tensor) {
    bool excluded = false;
    for (const std::string& glob : choice_.exclude) {
      if (!glob_selects(glob, tensor.path, tensor.holder, tensor.attribute)) continue;
      used_exclusions_.insert(glob);
      excluded = true;
    }
    return excluded;
  }

  /// A fault must not count for two tensors.
  void check_shared() const {
    std::vector<const ckpt::TensorInfo*> sharing;
    for (const Chosen& one : chosen) {
      if (one.tensor->shared_end > 0) sharing.push_back(one.tensor);
    }
    std::sort(sharing.begin(), sharing.end(),
              [](const auto* a, const auto* b) { return a->shared_first < b->shared_first; });
    const ckpt::TensorInfo* furthest = nullptr;
    for (const ckpt::TensorInfo* const tensor : sharing) {
      const bool parts = furthest != nullptr && !tensor->holder.empty() && tensor->holder == furthest->holder;
      if (furthest != nullptr && tensor->shared_first < furthest->shared_end && !parts) {
        fail_at(ErrorCode::unsupported, "tensors",
                "{}: {} and {} lie over the same stored bytes; choose one of them with --tensor", file_,
                std::min(furthest->path, tensor->path), std::max(furthest->path, tensor->path));
      }
      if (furthest == nullptr || tensor->shared_end > furthest->shared_end) furthest = tensor;
    }
  }

  /// The format that --as gives a tensor.
  std::optional<NumberFormat> viewed(const ckpt::TensorInfo& tensor) {
    std::optional<NumberFormat> view;
    for (const auto& [glob, name] : choice_.as) {
      if (!glob_selects(glob, tensor.path, tensor.holder, tensor.attribute)) continue;
      used_views_.insert(glob);
      const auto format = number_format(name);
      if (!format) {
        fail_at(ErrorCode::bad_input, "as", "--as '{}={}': '{}' is not a number format: give one of {}", glob,
                name, name, fmt::join(number_format_names(), ", "));
      }
      const bool halves = tensor.format && ckpt::takes_half_a_byte(*tensor.format);
      if (halves != ckpt::takes_half_a_byte(*format)) {
        fail_at(ErrorCode::bad_input, "as",
                "{}: --as '{}={}': {} is {}; --as can neither give nor replace a type of half a byte", file_,
                glob, name, tensor.path, tensor.dtype);
      }
      if (format->bytes != tensor.element_bytes || !tensor.plain) {
        fail_at(ErrorCode::bad_input, "as",
                "{}: --as '{}={}': {} takes {} bytes, an element of {} ({}) takes {}", file_, glob, name,
                name, format->bytes, tensor.path, tensor.dtype, tensor.element_bytes);
      }
      if (view && view->name() != format->name()) {
        fail_at(ErrorCode::bad_input, "as", "{}: --as reads {} both as {} and as {}", file_, tensor.path,
                view->name(), name);
      }
      view = format;
    }
    if (view) view->order = tensor.order;
    return view;
  }

  /// The tensors that were named, or all that exist.
  void check_left_out() const {
    const auto unused = std::find_if(left_out_globs_.begin(), left_out_globs_.end(),
                                     [&](const auto& glob) { return !used_globs_.contains(glob); });
    if (left_out_.empty() || (!chosen.empty() && unused == left_out_globs_.end())) return;
    fail_at(ErrorCode::bad_input, "tensors",
            "{}: {} is asked for, but the script does not load it: altering it changes nothing of the loaded "
            "state; let load() read it, or leave it out",
            file_, unused == left_out_globs_.end() ? left_out_ : *unused);
  }

  void check_used() const {
    for (const std::string& layer : layers_) {
      if (used_layers_.contains(layer)) continue;
      fail_at(ErrorCode::not_found, "layers",
              "{}: layer '{}' has no tensor with the requested names and roles (see bitrift ls)", file_,
              layer);
    }
    for (const std::string& glob : choice_.exclude) {
      if (used_exclusions_.contains(glob)) continue;
      fail_at(ErrorCode::not_found, "exclude", "{}: --exclude '{}': none of the chosen tensors matches{}",
              file_, glob, ckpt::tensor_hint(reader_, glob));
    }
    for (const std::string& glob : choice_.tensors) {
      if (used_globs_.contains(glob)) continue;
      if (checksum_globs_.contains(glob)) {
        fail_at(ErrorCode::unsupported, "tensors",
                "{}: '{}' names checksums, which are computed from the tensors; alter a tensor instead",
                file_, glob);
      }
      fail_at(ErrorCode::not_found, "tensors",
              "{}: no tensor{} matches '{}'{} (* matches within one name, ** also matches . and /; see "
              "bitrift ls)",
              file_, choice_.roles.empty() ? "" : " with the requested roles", glob,
              choice_.roles.empty() ? ckpt::tensor_hint(reader_, glob) : "");
    }
    std::set<std::string> present;
    for (const auto& tensor : reader_.tensors()) present.insert(tensor.role);
    for (const std::string& role : choice_.roles) {
      if (used_roles_.contains(role)) continue;
      fail_at(ErrorCode::not_found, "roles", "{}: no tensor{} has the role '{}' (the file has {})", file_,
              choice_.tensors.empty() ? "" : " with the requested names", role, fmt::join(present, ", "));
    }
    for (const auto& [glob, name] : choice_.as) {
      if (used_views_.contains(glob)) continue;
      fail_at(ErrorCode::not_found, "as", "{}: --as '{}={}': none of the chosen tensors matches", file_, glob,
              name);
    }
  }

  const ckpt::Reader& reader_;
  std::string file_;
  const Choice& choice_;
  std::set<int> replicas_;
  std::set<std::string, std::less<>> layers_, used_layers_;
  std::string left_out_;  // the first tensor that fits and that nobody reads
  std::set<std::string> left_out_globs_;
  std::set<std::string> used_exclusions_;
  std::set<std::string> chosen_paths_;
  std::set<std::string> aliased_;  // the owner of a chosen alias
  std::set<std::string> used_globs_, used_roles_, checksum_globs_, used_views_;
};

}  // namespace

std::vector<Chosen> choose(const ckpt::Reader& reader, const Choice& choice) {
  return Selection(reader, choice).chosen;
}

std::vector<const ckpt::TensorInfo*> left_out(const ckpt::Reader& reader, const Choice& choice) {
  return Selection(reader, choice).skipped;
}

Choice choice_of(const record::FaultModel& model) {
  return {model.tensors, model.exclude, model.roles, model.layers, model.as, model.scope, model.seed};
}

}  // namespace bitrift::inject
