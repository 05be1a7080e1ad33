#include <memory>
#include <string>

#include <fmt/format.h>

#include "commands.h"
#include "inject/write/apply.h"
#include "output.h"

namespace bitrift::cli {

void add_undo(CLI::App& app, ExitCode&) {
  const auto file = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("undo", "Take the last in-place injection back, byte for byte");
  command->add_option("FILE", *file, "the file that `inject --in-place` altered")->required()->type_name("");
  command->footer(
      "Reads FILE.undo, which the injection left, and removes it once FILE is whole again. Also after an "
      "injection\n"
      "that was cut short. Refused when FILE was changed by someone else since.\n"
      "Example:\n  bitrift undo checkpoint.h5");
  command->callback([file] {
    const std::uint64_t restored = inject::undo(*file);
    print(fmt::format("{}: {} restored\n", *file, counted(restored, "byte")));
  });
}

}  // namespace bitrift::cli
