// The proof that a schedule is an allreduce.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "comm/mesh_schedule.h"

namespace bitrift::comm {

/// The faults of a schedule, in the order in which they are looked for.
enum class Flaw {
  dead_chip,    ///< a send from or to a dead chip
  no_link,      ///< a send over a dead link, or between chips that are not neighbours
  unseen_wait,  ///< a send waits for one in which neither of its chips takes part
  cycle,        ///< sends that wait for each other
  race,         ///< two parts of sends use a chunk at a chip, one writes it, and nothing orders them
  missing,      ///< at the end, a gradient is not in a chunk of a chip
  repeated,     ///< at the end, a gradient is in a chunk of a chip more than once
};
constexpr EnumNames<7> names_of(Flaw) {
  return {"flaw of a schedule",
          {"dead-chip", "no-link", "unseen-wait", "cycle", "race", "missing", "repeated"}};
}

struct CounterExample {
  Flaw flaw = Flaw::missing;
  std::string text;  ///< one line, without the name of the fault
};

/// The properties of a schedule that is an allreduce.
struct ProofSummary {
  std::size_t chips = 0;  ///< live ones
  std::size_t sends = 0;
  std::uint32_t chunks = 0;
  std::size_t steps = 0;           ///< sends of the longest chain of waits
  std::size_t busiest_link = 0;    ///< the most sends over one link in one direction
  std::size_t directed_links = 0;  ///< number of live directed links
  /// Every chip ends with a sum that was added up in the same order: with any commutative addition, such as
  /// floating point, all chips have the same bits.
  bool one_order = false;
};

struct Verdict {
  std::optional<CounterExample> counter_example;  ///< the fault; none: the schedule is an allreduce
  ProofSummary proof;                             ///< complete only then
};

/// Decides whether every run that the meaning of a schedule (mesh_schedule.h) allows ends, and ends with the
/// gradient of each live chip exactly once in every chunk of every live chip. Symbolic: no numbers are added.
/// Sends of different chunks never meet, so chunks are proved one by one; memory is 2 bits for each pair of
/// live chips, plus 24 bytes for each send. A race is a flaw even where all orders would give the same sum,
/// because they would not give the same bits. Throws Error(bad_input) for a schedule that is not sound
/// (require_sound), and Error(unsupported) if deciding whether waits order sends takes more than 2^30 steps
/// (each wait that is examined is a step). Sends that share a chunk at a chip and wait for each other
/// directly take few steps.
[[nodiscard]] Verdict verify(const Schedule& schedule);

}  // namespace bitrift::comm
