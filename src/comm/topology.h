// A mesh or torus of chips, some of which may be dead, as may be links between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "core/named_enum.h"

namespace bitrift::comm {

/// The lines of chips that are closed to rings. `rows`: the last chip of each row is linked to its first.
enum class Wrap { neither, rows, columns, both };
constexpr EnumNames<4> names_of(Wrap) {
  return {"direction to wrap around in", {"neither", "rows", "columns", "both"}};
}

/// The largest number of chips in a mesh, dead ones included.
inline constexpr int most_chips = 4096;

struct Place {
  int row = 0, column = 0;
  bool operator==(const Place&) const = default;
};

/// Chips that die together.
struct Board {
  Place first;  ///< the chip with the lowest row and column
  int height = 1, width = 1;
};

/// Two chips that are neighbours.
using Link = std::pair<int, int>;

/// Chips are numbered row by row over all places, dead or alive: row * columns + column. Two chips have at
/// most one link, which carries messages in both directions at once. So wrapping around adds nothing in a
/// dimension of 1 (a chip is not linked to itself) or 2 (the two chips are linked already).
class Topology {
 public:
  Topology() : Topology(1, 1, Wrap::neither, {}, {}) {}
  /// Dead links may be named in either direction. Throws Error(bad_input) if there are more than most_chips,
  /// a board leaves the mesh, or two chips with a dead link are not neighbours.
  Topology(int rows, int columns, Wrap wrap, const std::vector<Board>& dead,
           const std::vector<std::pair<Place, Place>>& dead_links);

  [[nodiscard]] int rows() const noexcept { return rows_; }
  [[nodiscard]] int columns() const noexcept { return columns_; }
  [[nodiscard]] Wrap wrap() const noexcept { return wrap_; }
  /// The number of all places, dead or alive.
  [[nodiscard]] int chips() const noexcept { return rows_ * columns_; }
  [[nodiscard]] int chip(Place place) const noexcept { return place.row * columns_ + place.column; }
  [[nodiscard]] Place place(int chip) const noexcept { return {chip / columns_, chip % columns_}; }
  /// "chip 5 (row 1, column 1)".
  [[nodiscard]] std::string name(int chip) const;

  [[nodiscard]] bool alive(int chip) const noexcept { return alive_[static_cast<std::size_t>(chip)]; }
  /// Ascending.
  [[nodiscard]] const std::vector<int>& live() const noexcept { return live_; }
  [[nodiscard]] std::vector<int> dead() const;
  /// Ascending; the lower chip first.
  [[nodiscard]] const std::vector<Link>& dead_links() const noexcept { return dead_links_; }
  /// Live chips at the other ends of a chip's live links, ascending. A dead chip has none.
  [[nodiscard]] std::span<const int> neighbours(int chip) const noexcept;
  /// Whether a live link leads from one live chip to the other.
  [[nodiscard]] bool linked(int from, int to) const noexcept;
  /// All live links, once in each direction, ascending.
  [[nodiscard]] std::vector<Link> links() const;

  /// The same mesh with these chips dead as well.
  [[nodiscard]] Topology without(std::span<const int> chips) const;
  /// The same mesh with this link, between two neighbours, dead as well.
  [[nodiscard]] Topology without_link(Link link) const;

  /// The lowest live chip to which no path leads from the first live chip.
  [[nodiscard]] std::optional<int> unreachable() const;
  /// Throws Error(bad_input) that names that chip, or says that no chip is alive.
  void require_connected() const;

  bool operator==(const Topology&) const = default;

 private:
  [[nodiscard]] Topology without(std::span<const int> chips, std::span<const Link> links) const;
  void find_neighbours();

  int rows_, columns_;
  Wrap wrap_;
  std::vector<bool> alive_;
  std::vector<int> live_;
  std::vector<Link> dead_links_;
  std::vector<int> neighbours_;            // for all chips, one after another
  std::vector<std::size_t> neighbour_at_;  // the beginning of each chip's neighbours, and one more
};

/// "0,0-0,1": the places of two chips; nullopt for any other text.
[[nodiscard]] std::optional<std::pair<Place, Place>> link_from_text(std::string_view text);

/// The description of a mesh in a command line or a spec.
struct TopologyText {
  std::string mesh;                     ///< "4x4": rows, columns
  std::string wrap = "neither";         ///< a name of Wrap
  std::vector<std::string> dead;        ///< "1,1" (row, column) or "1,1,2x2" (and height x width)
  std::vector<std::string> dead_links;  ///< "0,0-0,1"
};
/// Throws Error(bad_input) that quotes the text and says what was expected, and as the constructor does.
[[nodiscard]] Topology topology_from_text(const TopologyText& text);

/// {"rows", "columns", "wrap", "dead": [chip], "dead_links": [[chip, chip]]}
[[nodiscard]] nlohmann::json to_json(const Topology& topology);
/// The inverse. Throws Error(bad_file) for unknown or missing keys, other types and numbers out of range.
[[nodiscard]] Topology topology_from_json(const nlohmann::json& value);

}  // namespace bitrift::comm
