#include "design/kind/run/recoveries.h"

#include <algorithm>
#include <string>

#include "core/error.h"

namespace bitrift::design {
namespace {

using record::BatchRule;
using record::Document;
using record::Json;
using record::Parallel;
using record::RecoveryKind;
using record::RecoverySpec;
using record::StateSource;

constexpr std::int64_t usual_interval = 10;  // steps between two snapshots or checkpoints

bool has(const Document& document, const std::string& pointer) {
  return document.value.contains(Json::json_pointer(pointer));
}

/// Reads the value at /arms/K/recovery.
class RecoveryReader {
 public:
  RecoveryReader(const Document& document, std::string pointer, const Parallel& parallel)
      : document_(document), pointer_(std::move(pointer)), parallel_(parallel) {
    const Json& value = document.value.at(Json::json_pointer(pointer_));
    value_ = value;
    if (value.is_string()) {
      if (!find_named<RecoveryKind>(value.get<std::string>())) {
        refuse("", fmt::format("expected one of: {}; found {}", list_names<RecoveryKind>(), value.dump()));
      }
      value_ = {{"kind", value}};
    }
    spec_ = value_.get<RecoverySpec>();
  }

  /// failing: ranks that fail in one trial.
  RecoverySpec read(int failing) {
    check_kind();
    if (spec_.kind == RecoveryKind::none) return spec_;
    spec_.reorders_sums = spec_.kind == RecoveryKind::shrink && parallel_.mesh.has_value();
    read_state();
    read_spares(failing);
    read_intervals();
    read_batch();
    if (const std::string why = refusal_of_expansion(spec_, parallel_); !why.empty())
      refuse("expand_after", why + "; remove the key");
    return spec_;
  }

 private:
  [[nodiscard]] bool given(const char* key) const { return value_.contains(key); }
  [[nodiscard]] const char* kind() const { return name_of(spec_.kind); }
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
    fail(ErrorCode::bad_input, "{}: {}", document_.where(pointer_ + (key.empty() ? "" : "/" + key)), why);
  }

  void check_kind() const {
    if (spec_.kind == RecoveryKind::none) {
      for (const auto& [key, ignored] : value_.items()) {
        if (key != "kind") refuse(key, "nothing is recovered with kind none; remove the key");
      }
    }
    if (spec_.in_place() && parallel_.ranks == 1) {
      refuse("",
             fmt::format("{}: the run has one rank, and nobody is left when it fails; give none", kind()));
    }
    if (const std::string why = refusal_of_shards(spec_.kind, parallel_); !why.empty()) refuse("", why);
  }

  void read_state() {
    if (spec_.kind == RecoveryKind::relaunch && spec_.state && spec_.state != StateSource::file) {
      refuse("state",
             "a job that ends keeps nothing in memory, so relaunch reads a checkpoint file; remove the key");
    }
    if (spec_.state == StateSource::replica && parallel_.replicas() == 1) {
      refuse("state",
             fmt::format("a {} run has one copy of each stage, so no replica holds a dead rank's state; "
                         "give buddy or file",
                         name_of(parallel_.kind)));
    }
  }

  void read_spares(int failing) {
    const bool useful = spec_.kind == RecoveryKind::spare || spec_.kind == RecoveryKind::restart;
    if (given("spares") && !useful)
      refuse("spares", fmt::format("{} has no use for idle ranks; remove the key", kind()));
    if (spec_.kind != RecoveryKind::spare) return;
    if (!given("spares")) spec_.spares = failing;
    if (spec_.spares < 1) refuse("spares", "spare needs at least 1 idle rank");
  }

  void read_intervals() {
    const bool relaunches = spec_.kind == RecoveryKind::relaunch;
    const bool from_file = relaunches || spec_.state == StateSource::file;
    if (given("snapshot_every") && relaunches)
      refuse("snapshot_every", "a job that ends keeps no snapshot; give checkpoint_every");
    const bool rolls_back = spec_.kind == RecoveryKind::restart && !from_file;
    const bool from_buddy = spec_.state == StateSource::buddy;
    if (given("snapshot_every") && spec_.state && !from_buddy && !rolls_back) {
      refuse("snapshot_every", fmt::format("{} with state {} takes no snapshots; remove the key", kind(),
                                           name_of(*spec_.state)));
    }
    if (given("checkpoint_every") && spec_.state && !from_file) {
      refuse("checkpoint_every", fmt::format("{} with state {} reads no checkpoint; remove the key", kind(),
                                             name_of(*spec_.state)));
    }
    // Without a replica, another place must hold the state.
    const bool alone =
        !relaunches && !spec_.state && parallel_.replicas() == 1 && spec_.checkpoint_every == 0;
    if ((from_buddy || rolls_back || alone) && !given("snapshot_every"))
      spec_.snapshot_every = usual_interval;
    if (from_file && !given("checkpoint_every")) spec_.checkpoint_every = usual_interval;
  }

  void read_batch() const {
    if (given("batch") && spec_.kind != RecoveryKind::shrink)
      refuse("batch", fmt::format("{} continues with as many ranks, so the batch is the same; remove the key",
                                  kind()));
    if (spec_.batch == BatchRule::smaller && parallel_.replicas() == 1) {
      refuse("batch", fmt::format("a {} run has one replica, which computes the whole batch; give same",
                                  name_of(parallel_.kind)));
    }
  }

  const Document& document_;
  std::string pointer_;
  const Parallel& parallel_;
  Json value_;
  RecoverySpec spec_;
};

}  // namespace

std::vector<RecoverySpec> recoveries_from(const record::Document& document, const Kind& kind,
                                          const std::vector<Parallel>& arms) {
  std::vector<RecoverySpec> recoveries(arms.size());
  for (std::size_t i = 0; i < arms.size(); ++i) {
    const std::string pointer = pointer_of_arm(i) + "/recovery";
    if (!has(document, pointer)) continue;
    if (!kind.recovers()) {
      fail(ErrorCode::bad_input,
           "{}: is for campaigns in which ranks or links fail (strata.process, strata.link); remove the key",
           document.where(pointer));
    }
    recoveries[i] = RecoveryReader(document, pointer, arms[i]).read(std::max(1, kind.failing()));
  }
  return recoveries;
}

void refuse_key(const record::Document& document, const std::string& pointer, const std::string& why) {
  if (has(document, pointer)) fail(ErrorCode::bad_input, "{}: {}", document.where(pointer), why);
}

std::string pointer_of_arm(std::size_t arm) { return "/arms/" + std::to_string(arm); }

std::string name_of_arm(const record::Document& document, std::size_t arm) {
  return document.value.at("arms").at(arm).at("name").get<std::string>();
}

}  // namespace bitrift::design
