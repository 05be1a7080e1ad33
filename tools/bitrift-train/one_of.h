// Options whose values are the names of an enum.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "core/named_enum.h"

namespace bitrift::cli {

template <NamedEnum E>
CLI::IsMember one_of() {
  const auto words = names_of(E{}).words;
  return CLI::IsMember(std::vector<std::string>(words.begin(), words.end()));
}

}  // namespace bitrift::cli
