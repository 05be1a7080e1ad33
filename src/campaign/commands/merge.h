// Makes one journal from those of all shards.
#pragma once

#include <cstddef>
#include <filesystem>

#include "campaign/folder/folder.h"

namespace bitrift::campaign {

struct Merged {
  std::size_t rows = 0;
  std::size_t starts = 0;   ///< journals that were read
  std::size_t doubles = 0;  ///< rows that are in several of them
  std::size_t retracted = 0;
};

/// Reads every journal of a divided campaign by the torn-tail rule, drops doubles, sorts by id and replaces
/// DIR/trials.jsonl and DIR/incidents.jsonl. Shards may be running at the same time. Throws Error(bad_input)
/// when the campaign is undivided, Error(bad_file) with file and line for damage, Misbehaviour when doubles
/// differ, Error(io).
Merged merge_shards(const Layout& layout);

/// Whether DIR/trials.jsonl holds all that the shards wrote; true for an undivided campaign.
[[nodiscard]] bool is_merged(const Layout& layout);

/// Warns when DIR/trials.jsonl lacks rows that the shards wrote.
void warn_unless_merged(const Layout& layout);

}  // namespace bitrift::campaign
