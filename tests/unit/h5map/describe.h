// What a file holds, in the words of corpus.py.
#pragma once

#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "h5map/h5_file.h"

namespace bitrift::h5map::testing {

inline bool has_text(const Datatype& type) {
  if (type.type_class == TypeClass::string) return true;
  for (const TypeMember& member : type.members) {
    if (has_text(*member.type)) return true;
  }
  return type.base && has_text(*type.base);
}

inline std::string storage_text(const Layout& layout) {
  switch (layout.storage) {
    case Storage::contiguous:
      return "contiguous";
    case Storage::compact:
      return "compact";
    case Storage::chunked:
      return fmt::format("chunked {}", fmt::join(layout.chunked.chunk, ","));
    case Storage::virtual_source:
      return "virtual";
    case Storage::external:
      return "external";
  }
  return "";
}

inline std::string dataset_line(const Dataset& dataset) {
  const Layout& layout = dataset.layout;
  const bool placed = layout.storage == Storage::contiguous && layout.offset != undefined;
  std::vector<unsigned> filters;
  for (const Filter& filter : layout.filters) filters.push_back(filter.id);
  return fmt::format("{}\t{}\t{}\t{}\t{}\t{}{}\n", dataset.path, dataset.type ? dataset.type->name() : "none",
                     fmt::join(dataset.space.shape, ","), storage_text(layout),
                     placed ? std::to_string(layout.offset) : "None", fmt::join(filters, ","),
                     dataset.problem);
}

inline std::string attribute_lines(const File& file, const std::string& path, std::uint64_t header) {
  std::string lines;
  for (const Attribute& attribute : file.attributes(header)) {
    if (!attribute.problem.empty()) {
      lines += path + "@" + attribute.name + ": " + attribute.problem + "\n";
      continue;
    }
    std::string value;
    if (attribute.type->plain() && !has_text(*attribute.type)) {
      const auto bytes = file.source().read(attribute.offset, attribute.bytes, "value");
      value = fmt::format("{:02x}", fmt::join(bytes, ""));
    }
    lines += fmt::format("{}@{}\t{}\t{}\t{}\n", path, attribute.name, attribute.type->name(),
                         fmt::join(attribute.space.shape, ","), value);
  }
  return lines;
}

/// The text that `corpus.py describe` has for the same file.
inline std::string describe(const File& file) {
  std::string lines;
  for (const Dataset& dataset : file.datasets()) {
    lines += dataset_line(dataset) + attribute_lines(file, dataset.path, dataset.header);
  }
  for (const Group& group : file.groups()) lines += attribute_lines(file, group.path + "/", group.header);
  return lines;
}

}  // namespace bitrift::h5map::testing
