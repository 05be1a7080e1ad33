#include "comm/topology.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "core/error.h"

namespace bitrift::comm {
namespace {

constexpr int none = -1;

// The neighbour of a position in a line of `size` chips, by one step; `none` at an end.
int stepped(int at, int step, int size, bool closed) {
  const int next = at + step;
  if (next >= 0 && next < size) return next;
  return closed && size > 2 ? (next + size) % size : none;
}

// All places next to a place, as if every chip and link were alive, ascending.
std::vector<int> places_next_to(const Topology& topology, int chip) {
  const Place here = topology.place(chip);
  const bool rows = topology.wrap() == Wrap::rows || topology.wrap() == Wrap::both;
  const bool columns = topology.wrap() == Wrap::columns || topology.wrap() == Wrap::both;
  std::vector<int> found;
  for (const int step : {-1, 1}) {
    const int column = stepped(here.column, step, topology.columns(), rows);
    const int row = stepped(here.row, step, topology.rows(), columns);
    if (column != none) found.push_back(topology.chip({here.row, column}));
    if (row != none) found.push_back(topology.chip({row, here.column}));
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool inside(const Topology& topology, Place place) {
  return place.row >= 0 && place.row < topology.rows() && place.column >= 0 &&
         place.column < topology.columns();
}

}  // namespace

Topology::Topology(int rows, int columns, Wrap wrap, const std::vector<Board>& dead,
                   const std::vector<std::pair<Place, Place>>& dead_links)
    : rows_(rows), columns_(columns), wrap_(wrap) {
  if (rows < 1 || columns < 1 || rows > most_chips || columns > most_chips || rows * columns > most_chips) {
    fail(ErrorCode::bad_input, "a mesh of {}x{} chips; expected 1 to {} chips", rows, columns, most_chips);
  }
  alive_.assign(static_cast<std::size_t>(chips()), true);
  for (const Board& board : dead) {
    // In this form the comparison cannot overflow.
    if (!inside(*this, board.first) || board.height < 1 || board.width < 1 ||
        board.height > rows - board.first.row || board.width > columns - board.first.column) {
      fail(ErrorCode::bad_input,
           "the dead board of {}x{} chips at row {}, column {} is not inside the mesh of {}x{}", board.height,
           board.width, board.first.row, board.first.column, rows, columns);
    }
    for (int row = 0; row < board.height; ++row) {
      for (int column = 0; column < board.width; ++column)
        alive_[static_cast<std::size_t>(chip({board.first.row + row, board.first.column + column}))] = false;
    }
  }
  for (int chip = 0; chip < chips(); ++chip) {
    if (alive(chip)) live_.push_back(chip);
  }
  for (const auto& [one, other] : dead_links) {
    if (!inside(*this, one) || !inside(*this, other) ||
        std::ranges::count(places_next_to(*this, chip(one)), chip(other)) == 0) {
      fail(ErrorCode::bad_input, "the mesh of {}x{} has no link {},{}-{},{} that could be dead", rows,
           columns, one.row, one.column, other.row, other.column);
    }
    dead_links_.emplace_back(std::minmax(chip(one), chip(other)));
  }
  std::sort(dead_links_.begin(), dead_links_.end());
  dead_links_.erase(std::unique(dead_links_.begin(), dead_links_.end()), dead_links_.end());
  find_neighbours();
}

void Topology::find_neighbours() {
  for (int chip = 0; chip < chips(); ++chip) {
    neighbour_at_.push_back(neighbours_.size());
    if (!alive(chip)) continue;
    for (const int next : places_next_to(*this, chip)) {
      const Link link = std::minmax(chip, next);
      if (alive(next) && !std::binary_search(dead_links_.begin(), dead_links_.end(), link))
        neighbours_.push_back(next);
    }
  }
  neighbour_at_.push_back(neighbours_.size());
}

Topology Topology::without(std::span<const int> chips) const { return without(chips, {}); }

Topology Topology::without_link(Link link) const { return without({}, std::array{link}); }

Topology Topology::without(std::span<const int> chips, std::span<const Link> links) const {
  std::vector<Board> boards;
  for (const int chip : dead()) boards.push_back({place(chip), 1, 1});
  for (const int chip : chips) boards.push_back({place(chip), 1, 1});
  std::vector<std::pair<Place, Place>> ends;
  ends.reserve(dead_links_.size() + links.size());
  for (const auto& [one, other] : dead_links_) ends.emplace_back(place(one), place(other));
  for (const auto& [one, other] : links) ends.emplace_back(place(one), place(other));
  return {rows_, columns_, wrap_, boards, ends};
}

std::string Topology::name(int chip) const {
  const Place at = place(chip);
  return fmt::format("chip {} (row {}, column {})", chip, at.row, at.column);
}

std::vector<int> Topology::dead() const {
  std::vector<int> found;
  for (int chip = 0; chip < chips(); ++chip) {
    if (!alive(chip)) found.push_back(chip);
  }
  return found;
}

std::span<const int> Topology::neighbours(int chip) const noexcept {
  const auto at = static_cast<std::size_t>(chip);
  return std::span(neighbours_).subspan(neighbour_at_[at], neighbour_at_[at + 1] - neighbour_at_[at]);
}

bool Topology::linked(int from, int to) const noexcept {
  return std::ranges::count(neighbours(from), to) != 0;
}

std::vector<Link> Topology::links() const {
  std::vector<Link> found;
  found.reserve(neighbours_.size());
  for (const int from : live_) {
    for (const int to : neighbours(from)) found.emplace_back(from, to);
  }
  return found;
}

std::optional<int> Topology::unreachable() const {
  if (live_.empty()) return std::nullopt;
  std::vector<bool> reached(alive_.size(), false);
  std::vector<int> open{live_.front()};
  reached[static_cast<std::size_t>(live_.front())] = true;
  while (!open.empty()) {
    const int chip = open.back();
    open.pop_back();
    for (const int next : neighbours(chip)) {
      if (reached[static_cast<std::size_t>(next)]) continue;
      reached[static_cast<std::size_t>(next)] = true;
      open.push_back(next);
    }
  }
  for (const int chip : live_) {
    if (!reached[static_cast<std::size_t>(chip)]) return chip;
  }
  return std::nullopt;
}

void Topology::require_connected() const {
  if (live_.empty())
    fail(ErrorCode::bad_input, "no chip of the mesh of {}x{} is alive; leave one alive", rows_, columns_);
  if (const auto lost = unreachable()) {
    fail(ErrorCode::bad_input,
         "{} cannot be reached from {} over live links; declare the smaller part of the mesh dead, too",
         name(*lost), name(live_.front()));
  }
}

namespace {

// Numbers and the marks between them: "1,1,2x2" by {',', ',', 'x'}. nullopt for any other text.
template <std::size_t n>
std::optional<std::array<int, n + 1>> numbers_in(std::string_view text, const std::array<char, n>& marks) {
  std::array<int, n + 1> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (std::size_t i = 0; i <= n; ++i) {
    if (at == end || *at == '-') return std::nullopt;
    const auto [rest, error] = std::from_chars(at, end, numbers[i]);
    if (error != std::errc()) return std::nullopt;
    at = rest;
    if (i < n && (at == end || *at++ != marks[i])) return std::nullopt;
  }
  return at == end ? std::optional(numbers) : std::nullopt;
}

Board board_from_text(const std::string& text) {
  if (const auto one = numbers_in<1>(text, {','})) return {{(*one)[0], (*one)[1]}, 1, 1};
  if (const auto all = numbers_in<3>(text, {',', ',', 'x'}))
    return {{(*all)[0], (*all)[1]}, (*all)[2], (*all)[3]};
  fail(ErrorCode::bad_input,
       "dead '{}': expected ROW,COLUMN of one chip, or ROW,COLUMN,HEIGHTxWIDTH, such as 1,1,2x2", text);
}

}  // namespace

std::optional<std::pair<Place, Place>> link_from_text(std::string_view text) {
  const auto ends = numbers_in<3>(text, {',', '-', ','});
  if (!ends) return std::nullopt;
  return std::pair(Place{(*ends)[0], (*ends)[1]}, Place{(*ends)[2], (*ends)[3]});
}

Topology topology_from_text(const TopologyText& text) {
  const auto size = numbers_in<1>(text.mesh, {'x'});
  if (!size) fail(ErrorCode::bad_input, "mesh '{}': expected ROWSxCOLUMNS, such as 4x4", text.mesh);
  const auto wrap = find_named<Wrap>(text.wrap);
  if (!wrap) fail(ErrorCode::bad_input, "wrap '{}': expected {}", text.wrap, list_names<Wrap>());
  std::vector<Board> dead;
  for (const std::string& one : text.dead) dead.push_back(board_from_text(one));
  std::vector<std::pair<Place, Place>> links;
  for (const std::string& one : text.dead_links) {
    const auto ends = link_from_text(one);
    if (!ends) {
      fail(ErrorCode::bad_input, "dead link '{}': expected ROW,COLUMN-ROW,COLUMN, such as 0,0-0,1", one);
    }
    links.push_back(*ends);
  }
  return {(*size)[0], (*size)[1], *wrap, dead, links};
}

nlohmann::json to_json(const Topology& topology) {
  return {{"rows", topology.rows()},
          {"columns", topology.columns()},
          {"wrap", name_of(topology.wrap())},
          {"dead", topology.dead()},
          {"dead_links", topology.dead_links()}};
}

namespace {

constexpr std::array<std::string_view, 5> topology_keys{"rows", "columns", "wrap", "dead", "dead_links"};

const nlohmann::json& member(const nlohmann::json& value, const char* key) {
  const auto found = value.find(key);
  if (found == value.end()) fail(ErrorCode::bad_file, "topology: '{}' is missing", key);
  return *found;
}

int number_within(const nlohmann::json& value, const char* key, int least, int most) {
  const bool small = value.is_number_unsigned()
                         ? value.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                         : value.is_number_integer() && value.get<std::int64_t>() <= most;
  if (!small || value.get<std::int64_t>() < least) {
    fail(ErrorCode::bad_file, "topology: '{}' holds {}; expected whole numbers from {} to {}", key,
         value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace).substr(0, 40), least, most);
  }
  return value.get<int>();
}

}  // namespace

Topology topology_from_json(const nlohmann::json& value) {
  if (!value.is_object()) fail(ErrorCode::bad_file, "topology: expected an object");
  for (const auto& [key, unused] : value.items()) {
    if (std::ranges::count(topology_keys, key) == 0) {
      fail(ErrorCode::bad_file,
           "topology: holds a key that is not known; it has rows, columns, wrap, dead and dead_links");
    }
  }
  const int rows = number_within(member(value, "rows"), "rows", 1, most_chips);
  const int columns = number_within(member(value, "columns"), "columns", 1, most_chips / rows);
  const auto& wrap = member(value, "wrap");
  const auto named = wrap.is_string() ? find_named<Wrap>(wrap.get_ref<const std::string&>()) : std::nullopt;
  if (!named) fail(ErrorCode::bad_file, "topology: 'wrap' is none of {}", list_names<Wrap>());
  const auto& chips = member(value, "dead");
  const auto& pairs = member(value, "dead_links");
  if (!chips.is_array() || !pairs.is_array())
    fail(ErrorCode::bad_file, "topology: 'dead' and 'dead_links' must be arrays");
  const auto place = [&](const nlohmann::json& chip, const char* key) {
    const int number = number_within(chip, key, 0, rows * columns - 1);
    return Place{number / columns, number % columns};
  };
  std::vector<Board> dead;
  for (const auto& chip : chips) dead.push_back({place(chip, "dead"), 1, 1});
  std::vector<std::pair<Place, Place>> links;
  for (const auto& pair : pairs) {
    if (!pair.is_array() || pair.size() != 2)
      fail(ErrorCode::bad_file, "topology: 'dead_links' must hold pairs of chips");
    links.emplace_back(place(pair[0], "dead_links"), place(pair[1], "dead_links"));
  }
  return {rows, columns, *named, dead, links};
}

}  // namespace bitrift::comm
