#include <memory>
#include <string>

#include <fmt/format.h>

#include "commands.h"
#include "inject/write/apply.h"
#include "output.h"

namespace bitrift::cli {

void add_undo(CLI::App& app, ExitCode&) {
  const auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("undo", "Undo the last in-place injection, byte for byte");
  command->add_option("FILE", *file, "file altered by `inject --in-place`, of any format that it takes")
      ->required()
      ->type_name("");
  command->footer(
      "Reads FILE.undo, which the injection wrote, and removes it after restoring FILE. Also works after an\n"
      "interrupted injection. Refused if FILE has changed since the injection.\n"
      "Example:\n  bitrift undo checkpoint.h5\n\n" +
      std::string(exit_codes));
  command->callback([file] {
    const std::uint64_t restored = inject::undo(*file);
    print(fmt::format("{}: {} restored\n", *file, counted(restored, "byte")));
  });
}

}  // namespace bitrift::cli
