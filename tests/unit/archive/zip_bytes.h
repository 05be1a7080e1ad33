// Zip archives made byte by byte, so that each field can be wrong.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "archive/crc32.h"

namespace bitrift::archive {

inline std::string little(std::uint64_t value, unsigned bytes) {
  std::string text;
  for (unsigned i = 0; i < bytes; ++i) text += static_cast<char>(i < 8 ? value >> (8 * i) & 0xFFU : 0);
  return text;
}

inline std::uint32_t crc_of(const std::string& text) {
  return crc32({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

/// What an archive says of one member; by default what is true of it.
struct MadeMember {
  std::string name, stored, content;
  unsigned method = 0;
  bool described = false;  ///< sizes and CRC after the data
  std::uint64_t claimed_stored = ~std::uint64_t{0};
  std::uint64_t claimed_header = ~std::uint64_t{0};
  bool summed = true;  ///< 0 for its CRC otherwise
};

inline std::string made_zip(const std::vector<MadeMember>& members) {
  std::string file, central;
  for (const MadeMember& one : members) {
    const std::uint64_t header = file.size();
    const std::string sum = little(one.summed ? crc_of(one.content) : 0, 4);
    const std::uint64_t claimed =
        one.claimed_stored == ~std::uint64_t{0} ? one.stored.size() : one.claimed_stored;
    const std::string sizes = little(claimed, 4) + little(one.method == 0 ? claimed : one.content.size(), 4);
    const std::string flags = little(one.described ? 8 : 0, 2) + little(one.method, 2) + little(0, 4);
    const std::string lengths = little(one.name.size(), 2) + little(0, 2);
    file += "PK\3\4" + little(20, 2) + flags + (one.described ? little(0, 12) : sum + sizes) + lengths;
    file += one.name + one.stored;
    if (one.described) file += "PK\7\10" + sum + sizes;
    central += "PK\1\2" + little(20, 2) + little(20, 2) + flags + sum + sizes + lengths + little(0, 10);
    central += little(one.claimed_header == ~std::uint64_t{0} ? header : one.claimed_header, 4) + one.name;
  }
  const std::string count = little(members.size(), 2);
  return file + central + "PK\5\6" + little(0, 4) + count + count + little(central.size(), 4) +
         little(file.size(), 4) + little(0, 2);
}

}  // namespace bitrift::archive
