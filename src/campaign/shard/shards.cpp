#include "campaign/shard/shards.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "campaign/folder/numeric_environment.h"
#include "campaign/plan/ends.h"
#include "campaign/plan/plan.h"
#include "core/error.h"
#include "core/file.h"
#include "record/provenance.h"

namespace bitrift::campaign {
namespace {

using namespace std::chrono_literals;
using record::Json;
using Clock = std::chrono::steady_clock;

constexpr auto first_word = 5s;   // of waiting, before a message is printed
constexpr auto next_word = 60s;   // between two lines
constexpr auto slow_look = 2s;    // between two looks at the folder, once waiting takes long
constexpr auto unreadable = 10s;  // a finished journal that cannot be read for this long is damaged

Stage stage_of(std::string name, std::string words, int shards,
               const std::function<std::vector<RunKey>(const ShardId&)>& share) {
  Stage stage{std::move(name), std::move(words), {}};
  for (int index = 1; index <= shards; ++index) {
    stage.runs.push_back(share({index, shards}));
  }
  return stage;
}

std::string minutes(Clock::duration time) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time).count();
  return seconds < 120 ? fmt::format("{} s", seconds) : fmt::format("{} min", seconds / 60);
}

// Grows, so that short rounds cost no time and long ones put no load on the file server.
class Pause {
 public:
  void operator()(const std::function<void()>& tick) {
    for (auto left = length_; left > 0ms; left -= 50ms) {
      tick();
      std::this_thread::sleep_for(std::min<std::chrono::milliseconds>(left, 50ms));
    }
    length_ = std::min<std::chrono::milliseconds>(length_ * 3 / 2 + 1ms, slow_look);
  }

 private:
  std::chrono::milliseconds length_ = 20ms;
};

std::filesystem::path marker(const Layout& layout, const ShardId& shard, const std::string& stage) {
  return shard_folder(layout.shards(), shard.index, shard.count) / "done" / (stage + ".json");
}

std::string waits_for(const LeaseHolder& holder, const ShardId& id, const LeaseTimes& times) {
  if (!holder.of.empty()) {
    return fmt::format(
        "shard {}: the driver of shard {} stands in ({}): waiting until it hands the shard over", id.text(),
        holder.of, holder.text());
  }
  return fmt::format("shard {}: its last driver ({}) did not record its end: waiting {} s for its heartbeat",
                     id.text(), holder.text(), times.silence / 1s);
}

// When the next line about waiting is due.
class Words {
 public:
  [[nodiscard]] bool due() {
    if (Clock::now() < next_) return false;
    next_ = Clock::now() + next_word;
    return true;
  }

 private:
  Clock::time_point next_ = Clock::now() + first_word;
};

}  // namespace

bool is_marked(const Layout& layout, const ShardId& shard, const std::string& stage) {
  return std::filesystem::exists(marker(layout, shard, stage));
}

// The last look at a shard.
struct Shard::Watch {
  bool marked = false;
  std::string damage;  // problem of a journal that should be whole
  Clock::time_point damaged_since;
  std::uint64_t bytes = 0;
  Clock::time_point changed = Clock::now();
};

Stage preparation_stage(const Plan& plan, int shards) {
  // An extended campaign has arms that are in no marker of an earlier start.
  const std::size_t extensions = plan.spec().earlier.size();
  const std::string name = extensions == 0 ? "preparation" : fmt::format("preparation-{:04d}", extensions);
  return stage_of(name, "the preparation", shards,
                  [&](const ShardId& shard) { return preparation_of(shard, plan); });
}

Stage round_stage(const record::Round& round, int shards) {
  return stage_of(fmt::format("round-{:04d}", round.number), fmt::format("round {}", round.number), shards,
                  [&](const ShardId& shard) { return trials_of(shard, round); });
}

Shard::Shard(const Layout& layout, const ShardId& id, const Patience& patience, Progress& progress)
    : layout_(layout),
      id_(id),
      patience_(patience),
      progress_(progress),
      journals_(layout.shards(), id.count),
      vacancies_(layout.shards(), id, patience.stand_in_after) {
  take({});
  journals_.leave_out(start_name(lease_->folder()));
  journals_.refresh();
  for (const auto& one : journals_.starts()) {
    if (one->shard == id.index && !one->tail.problem().empty())
      fail(ErrorCode::bad_file, "{}", one->tail.problem());
  }
  remove_earlier_work(*lease_);  // it would pile up
  std::error_code ignored;
  for (const auto& folder : {place().work(), place().root / "logs", scratch_root() / "done"}) {
    std::filesystem::create_directories(folder, ignored);
  }
}

Shard::~Shard() = default;

void Shard::take(const LeaseTimes& times) {
  const auto folder = shard_folder(layout_.shards(), id_.index, id_.count);
  LeaseTaker taker(folder, times);
  const auto wanted = wanted_file(folder);
  bool said = false;
  Pause pause;
  while (!(lease_ = taker.try_take())) {
    if (!taker.holder().of.empty()) {
      replace_text(wanted, "");
    } else if (taker.alive()) {
      fail(ErrorCode::busy,
           "{}: another `bitrift campaign run` is running shard {} ({}); wait for it or stop it",
           layout_.root.string(), id_.text(), taker.holder().text());
    }
    if (!std::exchange(said, true)) {
      progress_.note(waits_for(taker.holder(), id_, times));
    }
    pause([] { InterruptGuard::check(); });
  }
  std::error_code ignored;
  std::filesystem::remove(wanted, ignored);
}

void Shard::check_held() const {
  if (!lease_->lost()) return;
  fail(ErrorCode::busy,
       "shard {}: this process sent no heartbeat for too long, and another process has replaced it ({}); no "
       "row is lost",
       id_.text(), read_lease(numbered_folder(scratch_root(), lease_->number() + 1)).text());
}

void Shard::prepare_bases(Folder& folder, const std::function<void()>& make) {
  LeaseTaker taker(layout_.shards() / "base");
  Words words;
  Pause pause;
  const auto began = Clock::now();
  while (!folder.has_bases()) {
    if (const auto lease = taker.try_take()) {
      if (folder.has_bases()) break;  // the previous holder of the lease made them
      folder.remove_unfinished_bases();
      try {
        make();
      } catch (const std::exception& error) {
        lease->set_end(error.what());
        throw;
      }
      return;
    }
    if (words.due()) progress_.note("waiting for the base, made by " + taker.holder().text());
    const std::chrono::duration<double, std::ratio<3600>> waited = Clock::now() - began;
    if (patience_.wait_hours && waited.count() > *patience_.wait_hours) {
      fail(ErrorCode::busy,
           "shard {}: waited {:g} h for the base, made by {}; run the same command to resume", id_.text(),
           *patience_.wait_hours, taker.holder().text());
    }
    pause([] { InterruptGuard::check(); });
  }
  make();  // checks whether they have changed
}

void Shard::alone(const std::function<void()>& act) {
  LeaseTaker taker(layout_.shards() / "base");
  Words words;
  Pause pause;
  while (true) {
    if (const auto lease = taker.try_take()) return act();
    if (words.due()) progress_.note("waiting for " + taker.holder().text());
    pause([] { InterruptGuard::check(); });
  }
}

std::string Shard::own_origin() const {
  const Json own = record::provenance({});
  const Json environment = numeric_environment();
  std::string variables;
  for (const auto& [name, value] : environment.items())
    variables += fmt::format(", {}={}", name, value.get<std::string>());
  return fmt::format("shard {} on host {} ({}{}{}{})", id_.text(), own.at("host").get<std::string>(),
                     own.at("processor").get<std::string>(), processor_.empty() ? "" : ", ", processor_,
                     variables);
}

void Shard::note_trainer(const Json& environment) {
  if (std::exchange(noted_, true)) return;
  processor_ = environment.value("cpu_capability", "");
  const Json value = {{"provenance", record::provenance({})}, {"trainer", environment}};
  replace_text(place().root / "machine.json", value.dump(2) + "\n");
}

std::filesystem::path Shard::golden_path(std::size_t arm, int order) const {
  const std::string of_order = order == 0 ? "" : fmt::format("-order-{:04d}", order);
  return layout_.shards() / fmt::format("golden-{:04d}{}.json", arm, of_order);
}

std::optional<SharedGolden> Shard::golden(std::size_t arm, int order) const {
  const auto path = golden_path(arm, order);
  if (!std::filesystem::exists(path)) return std::nullopt;
  const Json stored = record::parse_file(path).value;
  try {
    return SharedGolden{record::run_result_from_json(stored.at("result")),
                        stored.at("origin").get<std::string>()};
  } catch (const Json::exception& error) {
    fail(ErrorCode::bad_file, "{}: not a golden run ({}); restore it", path.string(), error.what());
  }
}

SharedGolden Shard::agree(std::size_t arm, int order, const record::RunResult& result) {
  SharedGolden mine{result, own_origin()};
  const Json text = {{"result", record::to_json(result)}, {"origin", mine.origin}};
  const auto path = golden_path(arm, order);
  if (!std::filesystem::exists(path) && publish_text(path, text.dump(2) + "\n")) return mine;
  return golden(arm, order).value();
}

std::string Shard::origins(std::size_t arm, int order) const {
  const auto known = golden(arm, order);
  return fmt::format(
      " (the golden run is that of {}; this is {}: all shards need the same processor type and libraries)",
      known ? known->origin : "another shard", own_origin());
}

void Shard::publish(const Stage& stage, int shard, const std::filesystem::path& own_journal) {
  Json bytes = Json::object();
  for (const auto& one : journals_.starts()) {
    if (one->shard == shard) bytes[one->name] = one->tail.bytes();
  }
  bytes[start_name(own_journal.parent_path())] = std::filesystem::file_size(own_journal);
  // A marker of an earlier start stays valid: what it promised is still true.
  const auto path = marker(layout_, {shard, id_.count}, stage.name);
  static_cast<void>(publish_text(path, Json{{"journals", bytes}}.dump(2) + "\n"));
}

void Shard::finish(const Stage& stage, Journal& own) {
  own.sync();
  publish(stage, id_.index, place().journal());
}

void Shard::finish(const Stage& stage, StandIn& other) {
  other.ledger().journal().sync();
  publish(stage, other.id().index, other.place().journal());
}

// Whether a shard's marker exists, its journals can be read as far as the marker says, and no row is missing.
bool Shard::is_through(int shard, const Stage& stage, Watch& watch) const {
  const std::uint64_t bytes = journals_.bytes_of(shard);
  if (bytes != watch.bytes) watch.changed = Clock::now();
  watch.bytes = bytes;
  const auto path = marker(layout_, {shard, id_.count}, stage.name);
  watch.marked = std::filesystem::exists(path);
  if (!watch.marked) return false;
  const Json promised = record::parse_file(path).value.value("journals", Json::object());
  std::string damage;
  for (const auto& one : journals_.starts()) {
    if (one->shard != shard || promised.value(one->name, std::uint64_t{0}) <= one->tail.bytes()) continue;
    if (one->tail.problem().empty()) return false;
    damage = one->tail.problem();
  }
  if (!damage.empty()) {
    if (watch.damage != damage) watch.damaged_since = Clock::now();
    watch.damage = damage;
    if (Clock::now() - watch.damaged_since > unreadable) fail(ErrorCode::bad_file, "{}", damage);
    return false;
  }
  const auto& runs = stage.runs.at(static_cast<std::size_t>(shard - 1));
  // A stand-in has examined its own machine, not that of a driver which may never come.
  return std::all_of(runs.begin(), runs.end(), [&](const RunKey& run) {
    return !in_turn(run.kind) || journals_.find_in(shard, run.id) != nullptr;
  });
}

std::string Shard::account(int shard, const Stage& stage, const Watch& watch) const {
  const ShardId id{shard, id_.count};
  const auto& runs = stage.runs.at(static_cast<std::size_t>(shard - 1));
  std::size_t missing = 0;
  for (const RunKey& run : runs) missing += journals_.find_in(shard, run.id) == nullptr ? 1 : 0;
  std::string text = fmt::format("shard {}: {} of its {} rows of {} are missing", id.text(), missing,
                                 runs.size(), stage.words);
  if (missing == 0)
    text = fmt::format("shard {}: its last checks of {} are not finished", id.text(), stage.words);
  text += fmt::format(", no new row for {}", minutes(Clock::now() - watch.changed));
  const auto folder = shard_folder(layout_.shards(), shard, id_.count);
  const int last = last_lease(folder);
  if (last == 0) {
    return text + fmt::format(
                      "; it was never started: another shard stands in after {:g} s, or run it with "
                      "--shard {}",
                      patience_.stand_in_after.count(), id.text());
  }
  const LeaseHolder holder = read_lease(numbered_folder(folder, last));
  if (holder.over) {
    return text + fmt::format("; its last start ended{}{}", holder.end.empty() ? "" : ": ", holder.end);
  }
  const std::string who =
      holder.of.empty() ? "" : fmt::format("the driver of shard {} stands in, ", holder.of);
  return text +
         fmt::format("; {}{}{}", who, holder.text(), holder.here && !holder.lives ? ", which died" : "");
}

// The first of the missing shards, counted from the own one, that has no driver.
std::unique_ptr<StandIn> Shard::stand_in(const std::set<int>& missing) {
  for (int step = 1; step < id_.count; ++step) {
    const int shard = (id_.index - 1 + step) % id_.count + 1;
    if (!missing.contains(shard)) continue;
    const auto damaged = [&](const auto& one) { return one->shard == shard && !one->tail.problem().empty(); };
    if (std::any_of(journals_.starts().begin(), journals_.starts().end(), damaged)) continue;
    auto lease = vacancies_.try_take(shard);
    if (!lease) continue;
    const ShardId id{shard, id_.count};
    progress_.note(fmt::format("shard {} has no driver: standing in for it", id.text()));
    auto other = std::make_unique<StandIn>(std::move(lease), id, journals_);
    journals_.refresh();  // all that earlier starts wrote before they ended
    return other;
  }
  return nullptr;
}

std::unique_ptr<StandIn> Shard::meet(const Stage& stage, const std::function<void()>& tick) {
  std::set<int> missing;
  std::map<int, Watch> watches;
  for (int shard = 1; shard <= id_.count; ++shard) {
    if (shard != id_.index) missing.insert(shard);
  }
  Words words;
  Pause pause;
  while (true) {
    journals_.refresh();
    std::erase_if(missing, [&](int shard) { return is_through(shard, stage, watches[shard]); });
    if (missing.empty()) return nullptr;
    if (auto other = stand_in(missing)) return other;
    Clock::time_point last_news{};
    for (const int shard : missing) last_news = std::max(last_news, watches[shard].changed);
    const std::chrono::duration<double, std::ratio<3600>> silent = Clock::now() - last_news;
    const bool over = patience_.wait_hours && silent.count() > *patience_.wait_hours;
    if (over || words.due()) {
      constexpr std::size_t most_lines = 5;
      std::size_t lines = 0;
      for (const int shard : missing) {
        if (++lines > most_lines) break;
        progress_.note("waiting for " + account(shard, stage, watches[shard]));
      }
      if (missing.size() > most_lines)
        progress_.note(fmt::format("waiting for {} more shards", missing.size() - most_lines));
    }
    if (over) {
      fail(ErrorCode::busy,
           "shard {}: waited {:g} h for shard {}; start the missing shards, then run the same command to "
           "resume",
           id_.text(), *patience_.wait_hours, fmt::join(missing, ", "));
    }
    pause(tick);
  }
}

}  // namespace bitrift::campaign
