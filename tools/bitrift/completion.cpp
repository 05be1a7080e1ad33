// `bitrift completion`: a script for the shell, made of what the command line declares, so that it never lags
// behind.
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "commands.h"
#include "options/one_of.h"

namespace bitrift::cli {
namespace {

enum class Shell { bash, zsh };
constexpr EnumNames<2> names_of(Shell) { return {"shell", {"bash", "zsh"}}; }

/// How the value of an option is completed: with words, as a file, or (a number) not at all.
struct Values {
  std::vector<std::string> words;
  bool files = false;
};

Values values_of(const CLI::Option& option) {
  const std::vector<std::string> suggested = suggested_words(option);
  if (!suggested.empty()) return {suggested, false};
  const std::string type = option.get_type_name();  // "REASON:{bitwise,reconverged}" with CLI::IsMember
  const std::size_t open = type.find('{');
  const std::size_t close = type.rfind('}');
  if (open != std::string::npos && close != std::string::npos) {
    return {CLI::detail::split(type.substr(open + 1, close - open - 1), ','), false};
  }
  const bool number = type.size() == 1 || type == "INT" || type == "UINT" || type == "FLOAT" ||
                      type == "NUMBER" || type == "POINTS" || type == "MESH" || type == "CHIPS" ||
                      type == "LINK";
  return {{}, !number};
}

std::vector<std::string> names_of_option(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

/// The lines of a `case` for a command and those below it.
class Script {
 public:
  void add(const CLI::App& command, const std::string& path) {
    std::vector<std::string> words, options;
    bool files = false;
    for (const CLI::App* below :
         command.get_subcommands([](const CLI::App* one) { return !one->get_group().empty(); })) {
      words.push_back(below->get_name());
      fmt::format_to(std::back_inserter(paths), "{}'{} {}'", paths.empty() ? "" : " | ", path,
                     below->get_name());
      add(*below, path + " " + below->get_name());
    }
    for (const CLI::Option* option : command.get_options()) {
      const std::vector<std::string> names = names_of_option(*option);
      const Values values = values_of(*option);
      options.insert(options.end(), names.begin(), names.end());
      if (names.empty()) {
        words.insert(words.end(), values.words.begin(), values.words.end());
        files = files || values.files;
      } else if (option->get_expected_max() > 0) {
        std::vector<std::string> patterns;
        patterns.reserve(names.size());
        for (const std::string& name : names) patterns.push_back(fmt::format("'{} {}'", path, name));
        fmt::format_to(std::back_inserter(of_options), "    {}) offered='{}' files={} ;;\n",
                       fmt::join(patterns, " | "), fmt::join(values.words, " "), values.files ? 1 : 0);
      }
    }
    fmt::format_to(std::back_inserter(of_commands), "    '{}') offered='{}' switches='{}' files={} ;;\n",
                   path, fmt::join(words, " "), fmt::join(options, " "), files ? 1 : 0);
  }
  std::string paths, of_options, of_commands;
};

// For zsh too, to which path, words and options mean something.
constexpr const char* kBash = R"(# Completion of {2}, printed by `bitrift completion`.
{3}_bitrift() {{
  local IFS=$' \t\n' current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  local level=bitrift offered='' switches='' files=0 i
  if [[ $current == '=' ]]; then
    current=''
  elif [[ $previous == '=' ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$level ${{COMP_WORDS[i]}}" in
    {0}) level+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case "$level $previous" in
{1}    *)
    case "$level" in
)";

// For zsh too, to which path, words and options mean something.
constexpr const char* kBashEnd = R"(    esac
    if [[ $current == -* ]]; then offered=$switches files=0; fi
    ;;
  esac
  COMPREPLY=($(compgen -W "$offered" -- "$current"))
  if ((files)); then
    IFS=$'\n'
    COMPREPLY+=($(compgen -f -- "$current"))
    compopt -o filenames 2>/dev/null
  fi
  return 0
}
complete -F _bitrift bitrift
)";

void print_script(const CLI::App& app, Shell shell) {
  Script script;
  script.add(app, app.get_name());
  const char* const start =
      shell == Shell::zsh ? "autoload -Uz compinit bashcompinit && compinit && bashcompinit\n" : "";
  fmt::print(kBash, script.paths, script.of_options, app.version(), start);
  fmt::print("{}{}", script.of_commands, kBashEnd);
}

}  // namespace

void add_completion(CLI::App& app, ExitCode&) {
  const auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print the completion script of a shell");
  command->add_option("SHELL", *shell, "bash or zsh")->required()->check(one_of<Shell>())->type_name("");
  command->footer(
      std::string(
          "Examples:\n  source <(bitrift completion bash)   # for this shell; add it to ~/.bashrc for every "
          "shell\n  source <(bitrift completion zsh)    # the same for zsh, in ~/.zshrc\n"
          "  bitrift completion bash > ~/.local/share/bash-completion/completions/bitrift\n\n") +
      exit_codes);
  command->callback([shell, &app] { print_script(app, parse_named<Shell>(*shell)); });
}

}  // namespace bitrift::cli
