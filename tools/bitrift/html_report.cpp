#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "commands.h"
#include "core/error.h"
#include "core/process/python_program.h"
#include "options/whole_number.h"

namespace bitrift::cli {
namespace {

struct HtmlReportOptions {
  std::string folder, output;
  bool watch = false;
  std::optional<unsigned> port;
};

// Python's own message for a package that it lacks is a traceback.
constexpr const char* kStart = R"(import sys
def stop(text):
    print(f"bitrift: error: {text}", file=sys.stderr)
    sys.exit(2)
remedy = "run `pip install .[report]` with it in bitrift's source folder, or set BITRIFT_PYTHON to another Python"
if sys.version_info < (3, 11):
    stop(f"{sys.executable} is older than Python 3.11: set BITRIFT_PYTHON to a newer one")
try:
    import bitrift.__main__, bitrift.report
except ImportError as error:
    stop(f"{sys.executable} lacks the package {error.name or 'bitrift'}: {remedy}")
bitrift.__main__.main(sys.argv[1:])
)";

[[noreturn]] void become(const Command& command) {
  for (const auto& [name, value] : command.environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::setenv("PYTHONSAFEPATH", "1", 1);  // a folder `bitrift` that is here by chance is not the package
  std::vector<std::string> words = command.arguments;
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  ::execv(pointers.front(), pointers.data());
  fail(ErrorCode::io, "{}: {}; set BITRIFT_PYTHON to a Python that starts", words.front(), errno_text(errno));
}

[[noreturn]] void write_report(const HtmlReportOptions& options) {
  std::vector<std::string> words = {"-c", kStart, "report"};
  if (!options.output.empty()) words.push_back("--output=" + options.output);
  if (options.watch) words.emplace_back("--watch");
  if (options.port) words.insert(words.end(), {"--port", std::to_string(*options.port)});
  words.insert(words.end(), {"--", options.folder});
  become(python_command(words));
}

}  // namespace

void add_html_report(CLI::App& app) {
  const auto options = std::make_shared<HtmlReportOptions>();
  CLI::App* command = app.add_subcommand(
      "report", "Write the report of a campaign as one HTML file, or serve it while the campaign runs");
  command->add_option("DIR", options->folder, "campaign folder")->required();
  command->add_option("-o,--output", options->output, "file to write")->type_name("FILE");
  command->add_flag(
      "--watch", options->watch,
      "serve the page on 127.0.0.1 and update it while the campaign runs; Ctrl-C stops the server");
  command->add_option("--port", options->port, "port of --watch (default: a free one)")
      ->check(whole_number(0, 65535))
      ->type_name("N");
  command->footer(
      "Needs Python 3.11 or newer with the packages bitrift, jinja2 and pandas.\n"
      "Examples:\n"
      "  bitrift report results/quickstart -o report.html\n"
      "  bitrift report results/quickstart --watch\n\n"
      "Exit codes: 0 success, 1 no verdict can be given (the page says why), 2 usage or input error, 3 "
      "internal "
      "error in bitrift");
  command->callback([options] { write_report(*options); });
}

}  // namespace bitrift::cli
