#include "analyze/lines.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "core/text/natural_order.h"

namespace bitrift::analyze {
namespace {

constexpr const char* no_layer = "(none)";

const std::string& layer_name(const TensorBits& tensor) {
  static const std::string none = no_layer;
  return tensor.layer.empty() ? none : tensor.layer;
}

unsigned number_of(const std::string& bit) {
  unsigned number = 0;
  std::from_chars(bit.data(), bit.data() + bit.size(), number);
  return number;
}

/// A part of one stratum under one arm: a line's share of it.
struct LineCell {
  std::map<std::string, std::string> key;
  std::uint64_t bits = 0;
  std::vector<std::uint64_t> inside;
  std::uint64_t waiting = 0;
};

// The tensor and bit of a row's fault. One that lasts, or flips several bits of a number that is computed,
// counts where it begins.
std::pair<std::string, unsigned> bit_of(const record::TrialRecord& row) {
  if (row.faults.of_computing() && !row.faults.computed().empty()) {
    const record::ComputeFault& fault = row.faults.computed().front();
    return {fault.tensor, static_cast<unsigned>(fault.bit)};
  }
  const auto& [sites, changes] = row.faults.bits();  // empty if the faults are of another kind
  if (changes.size() != 1 || std::popcount(changes.front().bits) != 1 || row.plane != record::Plane::value) {
    fail(ErrorCode::unsupported,
         "row {}: its fault is not one bit of one element, so it has no layer, tensor or bit to group by",
         row.id.text());
  }
  return {sites[changes.front().site].tensor, static_cast<unsigned>(std::countr_zero(changes.front().bits))};
}

/// A stratum cut into cells.
class Cut {
 public:
  Cut(const std::vector<TensorBits>& tensors, const std::vector<Dimension>& by, Where& where,
      const std::map<std::string, std::string>& key) {
    std::map<std::map<std::string, std::string>, std::size_t> index;
    for (const TensorBits& tensor : tensors) {
      Places& places = places_[tensor.tensor];
      const bool layer_allowed = where.allows(Dimension::layer, layer_name(tensor));
      const bool tensor_allowed = where.allows(Dimension::tensor, tensor.tensor);
      places.numbers = tensor.bits.empty();
      for (const unsigned bit : places.numbers ? std::vector<unsigned>{0} : tensor.bits) {
        bits_ += tensor.elements;
        places.at[bit] = outside;
        if (!where.allows(Dimension::bit, std::to_string(bit)) || !layer_allowed || !tensor_allowed) continue;
        const auto [at, fresh] = index.emplace(key_of(key, by, tensor, bit), cells.size());
        if (fresh) cells.push_back({at->first, 0, {}, 0});
        cells[at->second].bits += tensor.elements;
        places.at[bit] = static_cast<int>(at->second);
      }
    }
  }

  [[nodiscard]] std::uint64_t bits() const noexcept { return bits_; }

  /// The cell that holds a row's fault; nullptr when no line wants it.
  LineCell* find(const record::TrialRecord& row) {
    const auto [tensor, bit] = bit_of(row);
    const auto places = places_.find(tensor);
    const unsigned place = places != places_.end() && places->second.numbers ? 0 : bit;
    if (places == places_.end() || places->second.at[place] == unknown) {
      fail(ErrorCode::conflict,
           "row {}: bit {} of {} is not in its stratum as the base checkpoint has it; restore the checkpoint",
           row.id.text(), bit, tensor);
    }
    const int cell = places->second.at[place];
    return cell == outside ? nullptr : &cells[static_cast<std::size_t>(cell)];
  }

  std::vector<LineCell> cells;

 private:
  static constexpr int unknown = -2;
  static constexpr int outside = -1;
  struct Places {
    Places() { at.fill(unknown); }
    std::array<int, 64> at{};  // by bit: index into cells
    bool numbers = false;      // the one of bit 0 stands for all bits
  };

  static std::map<std::string, std::string> key_of(std::map<std::string, std::string> key,
                                                   const std::vector<Dimension>& by, const TensorBits& tensor,
                                                   unsigned bit) {
    for (const Dimension dimension : by) {
      if (dimension == Dimension::layer) key[key_name(dimension)] = layer_name(tensor);
      if (dimension == Dimension::tensor) key[key_name(dimension)] = tensor.tensor;
      if (dimension == Dimension::bit) key[key_name(dimension)] = std::to_string(bit);
    }
    return key;
  }

  std::unordered_map<std::string, Places> places_;
  std::uint64_t bits_ = 0;
};

// The draws of a stratum that fell into a cell, as if the cell were a stratum.
StratumSeen seen_of(const StratumSeen& whole, const LineCell& cell) {
  StratumSeen seen;
  seen.bits = cell.bits;
  seen.waiting = cell.waiting;
  for (const std::uint64_t draw : cell.inside) {
    seen.outcomes.push_back(whole.outcomes[draw]);
    seen.courses.push_back(whole.courses[draw]);
    seen.ranks.push_back(whole.ranks[draw]);
    seen.accuracy_losses.push_back(whole.accuracy_losses[draw]);
  }
  return seen;
}

// The first `trials` rows count, later rows wait.
void sort_rows(Cut& cut, const std::vector<const record::TrialRecord*>& rows, std::uint64_t trials) {
  for (std::uint64_t draw = 0; draw < rows.size(); ++draw) {
    LineCell* const cell = cut.find(*rows[draw]);
    if (cell == nullptr) continue;
    if (draw < trials) {
      cell->inside.push_back(draw);
    } else {
      ++cell->waiting;
    }
  }
}

}  // namespace

Lines::Lines(const design::CampaignSpec& spec, const std::vector<Dimension>& by, Where& where,
             const Contents* contents, const Order& order, const Observations& seen,
             const std::vector<record::TrialRecord>& rows)
    : spec_(spec), by_(by), where_(where), contents_(contents), order_(order), seen_(seen) {
  const bool cuts = where.cuts_strata() || std::any_of(by.begin(), by.end(), cuts_strata);
  if (cuts && (contents == nullptr || contents->size() != spec.files.size())) {
    fail(ErrorCode::bad_input,
         "a rate by layer, tensor or bit needs the base checkpoint, which says how many bits each of them "
         "has");
  }
  if (cuts) collect_rows(rows);
  const std::vector<Dimension> asked = where.dimensions();
  const Keys keys(spec, by);
  const Keys conditions(spec, asked);
  for (const design::Arm& arm : spec.arms) {
    for (std::size_t at = 0; at < order.names.size(); ++at) {
      const Key properties = conditions.of(arm.name, order.names[at]);
      bool allowed = true;
      for (const Dimension dimension : asked) {
        if (cuts_strata(dimension)) continue;
        bool one = where.allows(dimension, properties.at(key_name(dimension)));
        // An arm of the spec becomes one arm for each base.
        if (dimension == Dimension::strategy) one = where.allows(dimension, arm.name) || one;
        if (dimension == Dimension::strategy && !arm.stem.empty())
          one = where.allows(dimension, arm.stem) || one;
        allowed = one && allowed;
      }
      if (!allowed) continue;
      const Key key = keys.of(arm.name, order.names[at]);
      if (cuts) {
        add_parts(arm, at, key);
      } else {
        add_stratum(arm, at, key);
      }
    }
  }
  where.check();
  if (cuts) {
    sort_by_position();
  } else {
    std::sort(lines_.begin(), lines_.end(), [](const Line& a, const Line& b) { return a.key < b.key; });
  }
  if (lines_.empty()) fail(ErrorCode::bad_input, "--where: no bit of this campaign meets all conditions");
}

void Lines::collect_rows(const std::vector<record::TrialRecord>& rows) {
  for (const record::TrialRecord& row : rows) {
    if (row.kind == record::TrialKind::trial) rows_[{row.id.arm, row.id.stratum}].push_back(&row);
  }
  for (auto& [cell, list] : rows_) {
    std::sort(list.begin(), list.end(), [](const auto* a, const auto* b) { return a->id.draw < b->id.draw; });
  }
}

Line& Lines::line_of(const Key& key, const std::string& arm) {
  const auto [at, fresh] = index_.emplace(key, lines_.size());
  if (fresh) lines_.push_back({key, arm, {}});
  return lines_[at->second];
}

void Lines::add_stratum(const design::Arm& arm, std::size_t position, const Key& key) {
  const auto cell = seen_.cells.find({arm.name, order_.names[position]});
  Line& line = line_of(key, arm.name);
  line.members.push_back({cell == seen_.cells.end() ? nullptr : &cell->second, position});
}

void Lines::add_parts(const design::Arm& arm, std::size_t position, const Key& key) {
  const std::string& name = order_.names[position];
  Cut cut(contents_->at(arm.file).strata.at(name), by_, where_, key);
  const auto found = seen_.cells.find({arm.name, name});
  const StratumSeen* const whole = found == seen_.cells.end() ? nullptr : &found->second;
  const std::uint64_t bits = whole == nullptr ? order_.bits[position] : whole->bits;
  if (bits != 0 && bits != cut.bits()) {
    fail(ErrorCode::conflict,
         "stratum '{}' holds {} bits in the base checkpoint and {} in the rows; restore the checkpoint", name,
         cut.bits(), bits);
  }
  if (whole != nullptr) sort_rows(cut, rows_.at({arm.name, name}), whole->trials());
  for (LineCell& cell : cut.cells) {
    const StratumSeen* seen = nullptr;
    if (whole != nullptr) seen = &parts_seen_.emplace_back(seen_of(*whole, cell));
    parts_.push_back({cut.bits(), whole == nullptr ? 0 : whole->trials(), std::move(cell.inside)});
    line_of(cell.key, arm.name).members.push_back({seen, position, &parts_.back(), cell.bits});
  }
}

void Lines::sort_by_position() {
  std::map<std::string, std::size_t> layers;  // of all bases
  for (const BaseContents& base : *contents_) {
    for (const std::string& layer : base.layers) layers.emplace(layer, layers.size());
  }
  const auto place = [&layers](const std::string& name) {
    const auto at = layers.find(name);
    return at == layers.end() ? layers.size() : at->second;
  };
  std::sort(lines_.begin(), lines_.end(), [&](const Line& a, const Line& b) {
    for (const Dimension dimension : by_) {
      const std::string& one = a.key.at(key_name(dimension));
      const std::string& other = b.key.at(key_name(dimension));
      if (one == other) continue;
      if (dimension == Dimension::layer) return place(one) < place(other);
      if (dimension == Dimension::bit) return number_of(one) > number_of(other);
      return natural_less(one, other);
    }
    return false;
  });
}

}  // namespace bitrift::analyze
