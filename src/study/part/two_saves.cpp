#include "study/part/two_saves.h"

#include <algorithm>
#include <map>
#include <string>

#include <fcntl.h>

#include "ckpt/reader.h"
#include "core/error.h"
#include "core/file.h"
#include "study/part/saved_files.h"

namespace bitrift::study {
namespace {

using Files = std::map<std::string, std::filesystem::path>;

// Adds the differences of one file. A file that only one side has is compared with an empty one.
void compare_files(const std::string& name, const std::filesystem::path* first,
                   const std::filesystem::path* second, DeterminismResult& result) {
  const std::string a = first == nullptr ? "" : read_text(*first);
  const std::string b = second == nullptr ? "" : read_text(*second);
  result.first_bytes += a.size();
  result.second_bytes += b.size();
  const std::size_t common = std::min(a.size(), b.size());
  std::optional<std::uint64_t> place;
  for (std::size_t i = 0; i < common; ++i) {
    if (a[i] == b[i]) continue;
    if (!place) place = i;
    ++result.differing_bytes;
  }
  if (!place && (a.size() != b.size() || (first == nullptr) != (second == nullptr))) place = common;
  if (place && !result.first_difference) result.first_difference = BitFault{name, *place, 0, ""};
}

}  // namespace

DeterminismResult compare_saves(const std::filesystem::path& first, const std::filesystem::path& second,
                                const FileBits& bits) {
  const Files ours = saved_files(first);
  const Files theirs = saved_files(second);
  Files all = ours;
  all.insert(theirs.begin(), theirs.end());
  const auto find = [](const Files& files, const std::string& name) {
    const auto found = files.find(name);
    return found == files.end() ? nullptr : &found->second;
  };
  DeterminismResult result;
  for (const auto& [name, ignored] : all) compare_files(name, find(ours, name), find(theirs, name), result);
  result.equal = !result.first_difference;
  if (result.first_difference) {
    BitFault& place = *result.first_difference;
    place.structure = bits.structure_at(place.file, place.byte);
  }
  return result;
}

}  // namespace bitrift::study
