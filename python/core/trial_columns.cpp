#include "trial_columns.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include <pybind11/stl.h>

#include "record/metric.h"

namespace py = pybind11;

namespace bitrift::python {
namespace {

using analyze::TrialLine;

template <typename T>
py::bytes bytes_of(const std::vector<T>& items) {
  return {reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T)};
}

/// Texts, each stored once.
class Categories {
 public:
  void add(const std::string& text) { codes_.push_back(code_of(text)); }
  void add_none() { codes_.push_back(-1); }
  /// Indices and texts, sorted.
  [[nodiscard]] std::pair<py::bytes, std::vector<std::string>> sorted() const {
    std::vector<std::string> names;
    std::vector<std::int32_t> place(index_.size());
    for (const auto& [text, code] : index_) {
      place[static_cast<std::size_t>(code)] = static_cast<std::int32_t>(names.size());
      names.push_back(text);
    }
    std::vector<std::int32_t> codes = codes_;
    for (std::int32_t& code : codes) code = code < 0 ? code : place[static_cast<std::size_t>(code)];
    return {bytes_of(codes), names};
  }

 private:
  std::int32_t code_of(const std::string& text) {
    // Rows of one stratum follow each other.
    if (last_ != index_.end() && last_->first == text) return last_->second;
    last_ = index_.emplace(text, static_cast<std::int32_t>(index_.size())).first;
    return last_->second;
  }
  std::map<std::string, std::int32_t> index_;
  std::map<std::string, std::int32_t>::const_iterator last_ = index_.end();
  std::vector<std::int32_t> codes_;
};

class Columns {
 public:
  explicit Columns(const std::vector<TrialLine>& lines) : lines_(lines) {}

  /// text(line): a std::optional of a text.
  template <typename Text>
  void category(const char* name, Text text) {
    Categories categories;
    for (const TrialLine& line : lines_) {
      if (const std::optional<std::string> value = text(line)) {
        categories.add(*value);
      } else {
        categories.add_none();
      }
    }
    auto [codes, names] = categories.sorted();
    columns_.append(py::make_tuple(name, "category", codes, names));
  }

  /// number(line): a number; `kind` says which.
  template <typename Item, typename Number>
  void numbers(const char* name, const char* kind, Number number) {
    std::vector<Item> items;
    items.reserve(lines_.size());
    for (const TrialLine& line : lines_) items.push_back(static_cast<Item>(number(line)));
    columns_.append(py::make_tuple(name, kind, bytes_of(items), py::none()));
  }

  /// number(line): a std::optional of a number.
  template <typename Item, typename Number>
  void missing_numbers(const char* name, const char* kind, Number number) {
    std::vector<Item> items;
    std::vector<std::uint8_t> none;
    for (const TrialLine& line : lines_) {
      const auto value = number(line);
      items.push_back(value ? static_cast<Item>(*value) : Item{0});
      none.push_back(value ? 0 : 1);
    }
    columns_.append(py::make_tuple(name, kind, bytes_of(items), bytes_of(none)));
  }

  void ids() {
    py::list texts(lines_.size());
    for (std::size_t i = 0; i < lines_.size(); ++i) texts[i] = lines_[i].row->id.text();
    columns_.append(py::make_tuple("id", "text", texts, py::none()));
  }

  /// items(line): a list of numbers; where it is empty, there is none.
  template <typename Items>
  void tuples(const char* name, Items items) {
    std::map<decltype(items(lines_.front())), std::int32_t> index;
    std::vector<std::int32_t> codes;
    py::list tuples;
    for (const TrialLine& line : lines_) {
      const auto list = items(line);
      if (list.empty()) {
        codes.push_back(-1);
        continue;
      }
      const auto [at, fresh] = index.emplace(list, static_cast<std::int32_t>(index.size()));
      if (fresh) tuples.append(py::tuple(py::cast(list)));
      codes.push_back(at->second);
    }
    columns_.append(py::make_tuple(name, "tuple", bytes_of(codes), tuples));
  }

  py::list take() { return std::move(columns_); }

 private:
  const std::vector<TrialLine>& lines_;
  py::list columns_;
};

using Text = std::optional<std::string>;

const record::FaultSite* site_of(const TrialLine& line) {
  const record::FaultList& faults = line.row->faults.bits();
  return faults.empty() ? nullptr : &faults.sites[faults.changes.front().site];
}

const record::ElementChange* change_of(const TrialLine& line) {
  const record::FaultList& faults = line.row->faults.bits();
  return faults.empty() ? nullptr : &faults.changes.front();
}

void add_fault(Columns& columns, const std::map<std::string, std::string>& layers) {
  const auto of_site = [](auto member) {
    return [member](const TrialLine& line) {
      const record::FaultSite* const site = site_of(line);
      return site == nullptr ? Text{} : Text(site->*member);
    };
  };
  columns.numbers<std::int64_t>("faults", "int",
                                [](const TrialLine& line) { return line.row->faults.size(); });
  columns.category("tensor", of_site(&record::FaultSite::tensor));
  columns.category("layer", [&](const TrialLine& line) {
    const record::FaultSite* const site = site_of(line);
    const auto at = site == nullptr ? layers.end() : layers.find(site->tensor);
    return at == layers.end() ? Text{} : Text(at->second);
  });
  columns.category("role", of_site(&record::FaultSite::role));
  columns.missing_numbers<std::int64_t>("element", "int", [](const TrialLine& line) {
    return change_of(line) == nullptr ? std::nullopt : std::optional(change_of(line)->element);
  });
  columns.tuples("bits", [](const TrialLine& line) {
    const record::FaultList& faults = line.row->faults.bits();
    return faults.empty() ? std::vector<unsigned>{} : faults.at(0).bits;
  });
  columns.category("field", [](const TrialLine& line) {
    const record::FaultList& faults = line.row->faults.bits();
    return faults.empty() ? Text{} : Text(faults.at(0).field);
  });
  columns.category("dtype", of_site(&record::FaultSite::dtype));
  columns.missing_numbers<std::uint64_t>("old", "uint", [](const TrialLine& line) {
    return change_of(line) == nullptr ? std::nullopt : std::optional(change_of(line)->old_pattern);
  });
  columns.missing_numbers<std::uint64_t>("new", "uint", [](const TrialLine& line) {
    return change_of(line) == nullptr ? std::nullopt : std::optional(change_of(line)->new_pattern);
  });
}

void add_outcome(Columns& columns) {
  columns.category("outcome",
                   [](const TrialLine& line) { return Text(name_of(line.outcome.outcome_class())); });
  columns.category("reason", [](const TrialLine& line) { return Text(name_of(line.outcome.reason)); });
  columns.category("course", [](const TrialLine& line) { return Text(name_of(line.outcome.course)); });
  columns.numbers<double>("p_value", "float", [](const TrialLine& line) {
    return line.outcome.p_value.value_or(std::numeric_limits<double>::quiet_NaN());
  });
  columns.numbers<std::uint8_t>("bitwise_equal", "bool",
                                [](const TrialLine& line) { return line.outcome.bitwise_equal ? 1 : 0; });
  columns.missing_numbers<std::int64_t>("steps", "int", [](const TrialLine& line) {
    return line.row->result ? std::optional(line.row->result->steps) : std::nullopt;
  });
  columns.missing_numbers<std::int64_t>("steps_to_recover", "int",
                                        [](const TrialLine& line) { return line.outcome.steps_to_recover; });
  columns.missing_numbers<std::int64_t>("signal", "int", [](const TrialLine& line) {
    const auto& failure = line.row->failure;
    return failure && failure->signal != 0 ? std::optional(failure->signal) : std::nullopt;
  });
}

// Only where some guard raised an alarm.
void add_alarms(Columns& columns, const std::vector<TrialLine>& lines) {
  const auto count = [](auto member) {
    return [member](const TrialLine& line) {
      return line.row->result ? std::optional((*line.row->result).*member) : std::nullopt;
    };
  };
  const auto alarms = count(&record::RunResult::alarm_count);
  if (std::none_of(lines.begin(), lines.end(),
                   [&](const TrialLine& line) { return alarms(line).value_or(0) > 0; }))
    return;
  columns.missing_numbers<std::int64_t>("alarms", "int", alarms);
  columns.missing_numbers<std::int64_t>("guard_actions", "int",
                                        count(&record::RunResult::guard_action_count));
}

void add_metrics(Columns& columns, const std::string& prefix, const std::set<record::Metric>& metrics,
                 const std::optional<record::Evaluation> TrialLine::*evaluation) {
  for (const record::Metric& metric : metrics) {
    const std::string name = prefix + metric.name();
    columns.numbers<double>(name.c_str(), "float", [&](const TrialLine& line) {
      const auto& at = line.*evaluation;
      const auto value = at ? metric.value_in(*at) : std::nullopt;
      return value.value_or(std::numeric_limits<double>::quiet_NaN());
    });
  }
}

// Only where some fault is not at a value.
void add_places(Columns& columns, const std::vector<TrialLine>& lines) {
  bool planes = false, structures = false;
  for (const TrialLine& line : lines) {
    const record::FaultSite* const site = site_of(line);
    planes = planes || (site != nullptr && site->plane != record::Plane::value);
    structures = structures || (site != nullptr && !site->structure.empty());
  }
  if (planes) {
    columns.category("plane", [](const TrialLine& line) {
      const record::FaultSite* const site = site_of(line);
      return site == nullptr || site->plane == record::Plane::value ? Text{} : Text(name_of(site->plane));
    });
  }
  if (structures) {
    columns.category("structure", [](const TrialLine& line) {
      const record::FaultSite* const site = site_of(line);
      return site == nullptr || site->structure.empty() ? Text{} : Text(site->structure);
    });
  }
}

// The last of the ranks that were to fail; nullptr where bits were altered.
const record::ProcessFault* process_of(const TrialLine& line) {
  const auto& faults = line.row->faults.processes();
  return faults.empty() ? nullptr : &faults.back();
}

const record::Recovery* recovery_of(const TrialLine& line) {
  const auto& result = line.row->result;
  return !result || result->recoveries.empty() ? nullptr : &result->recoveries.back();
}

/// number(recovery): a number, which is added up over all recoveries of a run.
template <typename Item, typename Number>
auto sum_of(Number number) {
  return [number](const TrialLine& line) -> std::optional<Item> {
    if (recovery_of(line) == nullptr) return std::nullopt;
    Item sum{0};
    for (const record::Recovery& recovery : line.row->result->recoveries)
      sum += static_cast<Item>(number(recovery));
    return sum;
  };
}

void add_recoveries(Columns& columns) {
  columns.category("recovery", [](const TrialLine& line) {
    const auto* const recovery = recovery_of(line);
    return recovery == nullptr ? Text{} : Text(name_of(recovery->kind));
  });
  columns.category("state", [](const TrialLine& line) {
    const auto* const recovery = recovery_of(line);
    return recovery == nullptr || !recovery->state ? Text{} : Text(name_of(*recovery->state));
  });
  columns.missing_numbers<std::int64_t>("ranks_after", "int", [](const TrialLine& line) {
    return recovery_of(line) == nullptr ? std::nullopt : std::optional(recovery_of(line)->ranks_after);
  });
  const auto count = [&](const char* name, auto member) {
    columns.missing_numbers<std::int64_t>(
        name, "int",
        sum_of<std::int64_t>([member](const record::Recovery& recovery) { return recovery.*member; }));
  };
  count("steps_lost", &record::Recovery::steps_lost);
  count("steps_redone", &record::Recovery::steps_redone);
  count("bytes_moved", &record::Recovery::bytes_moved);
  const auto seconds = [&](const char* name, auto part) {
    const auto sum = sum_of<double>([part](const record::Recovery& one) { return part(one.times); });
    columns.numbers<double>(name, "float", [sum](const TrialLine& line) {
      return sum(line).value_or(std::numeric_limits<double>::quiet_NaN());
    });
  };
  using Times = record::RecoveryTimes;
  seconds("detect_s",
          [](const Times& times) { return times.detect.value_or(std::numeric_limits<double>::quiet_NaN()); });
  seconds("revoke_s", [](const Times& times) { return times.revoke; });
  seconds("agree_s", [](const Times& times) { return times.agree; });
  seconds("shrink_s", [](const Times& times) { return times.shrink; });
  seconds("respawn_s", [](const Times& times) { return times.respawn; });
  seconds("state_s", [](const Times& times) { return times.state; });
  seconds("redo_s", [](const Times& times) { return times.redo; });
  seconds("recovery_s", [](const Times& times) {
    return times.detect ? times.total() : std::numeric_limits<double>::quiet_NaN();
  });
}

// Only where ranks were to fail.
void add_processes(Columns& columns, const std::vector<TrialLine>& lines) {
  if (std::none_of(lines.begin(), lines.end(),
                   [](const TrialLine& line) { return process_of(line) != nullptr; }))
    return;
  columns.tuples("victims", [](const TrialLine& line) {
    std::vector<int> victims;
    for (const record::ProcessFault& fault : line.row->faults.processes()) victims.push_back(fault.rank);
    return victims;
  });
  columns.category("phase", [](const TrialLine& line) {
    return process_of(line) == nullptr ? Text{} : Text(name_of(process_of(line)->phase));
  });
  columns.missing_numbers<std::int64_t>("step", "int", [](const TrialLine& line) {
    return process_of(line) == nullptr ? std::nullopt : std::optional(process_of(line)->step);
  });
  columns.missing_numbers<std::int64_t>("point", "int", [](const TrialLine& line) {
    return process_of(line) == nullptr ? std::nullopt : std::optional(process_of(line)->point);
  });
  columns.category("how", [](const TrialLine& line) {
    return process_of(line) == nullptr ? Text{} : Text(name_of(process_of(line)->how));
  });
  columns.numbers<std::uint8_t>("recovered", "bool",
                                [](const TrialLine& line) { return line.outcome.recovered ? 1 : 0; });
  add_recoveries(columns);
}

// Only where messages were to be altered.
void add_messages(Columns& columns, const std::vector<TrialLine>& lines) {
  const auto fault_of = [](const TrialLine& line) {
    const auto& faults = line.row->faults.links();
    return faults.empty() ? nullptr : &faults.front();
  };
  if (std::none_of(lines.begin(), lines.end(),
                   [&](const TrialLine& line) { return fault_of(line) != nullptr; }))
    return;
  const auto number = [&](const char* name, auto member) {
    columns.missing_numbers<std::int64_t>(
        name, "int", [fault_of, member](const TrialLine& line) -> std::optional<std::int64_t> {
          const auto* const fault = fault_of(line);
          return fault == nullptr ? std::nullopt : std::optional<std::int64_t>(fault->*member);
        });
  };
  number("step", &record::LinkFault::step);
  number("bucket", &record::LinkFault::bucket);
  number("send", &record::LinkFault::send);
  number("message_element", &record::LinkFault::element);
  number("bit", &record::LinkFault::bit);
  columns.category("message", [fault_of](const TrialLine& line) {
    const bool known =
        fault_of(line) != nullptr && line.row->result && !line.row->result->altered_messages.empty();
    return known ? Text(name_of(line.row->result->altered_messages.front().kind)) : Text{};
  });
}

// Only where numbers were to be struck while they were computed.
void add_computed(Columns& columns, const std::vector<TrialLine>& lines) {
  const auto fault_of = [](const TrialLine& line) {
    const auto& faults = line.row->faults.computed();
    return faults.empty() ? nullptr : &faults.front();
  };
  if (std::none_of(lines.begin(), lines.end(), [&](const auto& line) { return fault_of(line) != nullptr; }))
    return;
  columns.category("site", [fault_of](const TrialLine& line) {
    return fault_of(line) == nullptr ? Text{} : Text(name_of(fault_of(line)->site));
  });
  columns.category("computed_tensor", [fault_of](const TrialLine& line) {
    return fault_of(line) == nullptr ? Text{} : Text(fault_of(line)->tensor);
  });
  const auto number = [&](const char* name, auto member) {
    columns.missing_numbers<std::int64_t>(
        name, "int", [fault_of, member](const TrialLine& line) -> std::optional<std::int64_t> {
          const auto* const fault = fault_of(line);
          return fault == nullptr ? std::nullopt : std::optional<std::int64_t>(fault->*member);
        });
  };
  number("step", &record::ComputeFault::step);
  number("replica", &record::ComputeFault::replica);
  number("micro_batch", &record::ComputeFault::micro_batch);
  number("computed_element", &record::ComputeFault::element);
  columns.missing_numbers<std::int64_t>(
      "bit", "int", [fault_of](const TrialLine& line) -> std::optional<std::int64_t> {
        const auto* const fault = fault_of(line);
        const bool flips = fault != nullptr && fault->effect == record::ComputeEffect::flip;
        return flips ? std::optional<std::int64_t>(fault->bit) : std::nullopt;
      });
}

// Only where links were to fail.
void add_failed_links(Columns& columns, const std::vector<TrialLine>& lines) {
  const auto link_of = [](const TrialLine& line) {
    const auto& links = line.row->faults.failed_links();
    return links.empty() ? nullptr : &links.front();
  };
  if (std::none_of(lines.begin(), lines.end(), [&](const auto& line) { return link_of(line) != nullptr; }))
    return;
  columns.category("link_failure", [link_of](const TrialLine& line) {
    return link_of(line) == nullptr ? Text{} : Text(name_of(link_of(line)->kind));
  });
  columns.missing_numbers<std::int64_t>("step", "int", [link_of](const TrialLine& line) {
    return link_of(line) == nullptr ? std::nullopt : std::optional(link_of(line)->step);
  });
  const auto seconds = [&](const char* name, auto member) {
    columns.numbers<double>(name, "float", [member](const TrialLine& line) {
      constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
      if (!line.row->result || line.row->result->failed_links.empty()) return unknown;
      return (line.row->result->failed_links.front().*member).value_or(unknown);
    });
  };
  seconds("plan_seconds", &record::LinkReport::plan_seconds);
  seconds("step_seconds_before", &record::LinkReport::step_seconds_before);
  seconds("step_seconds_behind", &record::LinkReport::step_seconds_behind);
}

}  // namespace

py::list trial_columns(const std::vector<TrialLine>& lines,
                       const std::map<std::string, std::string>& layers) {
  Columns columns(lines);
  columns.ids();
  columns.category("arm", [](const TrialLine& line) { return Text(line.row->id.arm); });
  columns.category("stratum", [](const TrialLine& line) { return Text(line.row->id.stratum); });
  columns.numbers<std::int64_t>("draw", "int", [](const TrialLine& line) { return line.row->id.draw; });
  columns.category("kind", [](const TrialLine& line) { return Text(name_of(line.row->kind)); });
  columns.numbers<std::int64_t>("order", "int", [](const TrialLine& line) { return line.row->order; });
  add_fault(columns, layers);
  add_outcome(columns);
  add_alarms(columns, lines);
  std::set<record::Metric> metrics(std::begin(record::standard_metrics), std::end(record::standard_metrics));
  for (const TrialLine& line : lines) {
    for (record::Metric& metric : analyze::shown_metrics(line)) metrics.insert(std::move(metric));
  }
  add_metrics(columns, "", metrics, &TrialLine::at);
  add_metrics(columns, "golden_", metrics, &TrialLine::golden);
  add_places(columns, lines);
  add_processes(columns, lines);
  add_messages(columns, lines);
  add_computed(columns, lines);
  add_failed_links(columns, lines);
  return columns.take();
}

}  // namespace bitrift::python
