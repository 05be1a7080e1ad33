// Subcommands of `bitrift mesh` with a file of their own.
#pragma once

#include <CLI/CLI.hpp>

namespace bitrift::cli {

void add_mesh_bound(CLI::App& parent);
void add_mesh_model(CLI::App& parent);
void add_mesh_table(CLI::App& parent);

}  // namespace bitrift::cli
