#include <algorithm>
#include <bit>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/random.h>

#include "commands.h"
#include "core/digest.h"
#include "core/error.h"
#include "inject/apply.h"
#include "inject/manifest.h"
#include "output.h"
#include "record/provenance.h"

namespace bitrift::cli {
namespace {

constexpr std::size_t kMostShown = 20;

struct Options {
  std::string file, output, manifest, model_file, replay;
  std::string plane = "value";
  std::optional<std::uint64_t> seed;
  record::FaultModel model;
  bool no_nan = false;
  bool in_place = false, force = false, dry_run = false, json = false;
};

/// 53 bits, so that the seed survives programs that read JSON numbers as doubles.
std::uint64_t seed_from_system() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
    fail(ErrorCode::io, "the system gave no random seed; give one with --seed");
  }
  return seed >> 11;
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code ignored;
  return std::filesystem::absolute(a).lexically_normal() == std::filesystem::absolute(b).lexically_normal() ||
         std::filesystem::equivalent(a, b, ignored);
}

void check_options(const Options& options) {
  if (options.plane != "value") {
    fail(ErrorCode::unsupported,
         "--plane {} is not supported by this version: value is (what a bit upset in memory does)",
         options.plane);
  }
  if (!options.output.empty() && options.in_place) {
    fail(ErrorCode::bad_input, "-o and --in-place exclude each other");
  }
  if (options.output.empty() && !options.in_place && !options.dry_run) {
    fail(ErrorCode::bad_input,
         "say where the altered checkpoint goes: -o OUT, or --in-place (or try --dry-run)");
  }
  if (options.force && options.replay.empty()) fail(ErrorCode::bad_input, "--force goes with --replay");
  if (options.manifest.empty()) return;
  for (const std::string& other : {options.file, options.output, inject::undo_path(options.file).string()}) {
    if (!other.empty() && same_file(options.manifest, other)) {
      fail(ErrorCode::bad_input, "--manifest {} would overwrite {}", options.manifest, other);
    }
  }
}

record::FaultModel model_from_file(const Options& options) {
  const record::Document document = record::parse_file(options.model_file);
  record::Json schema = record::shipped_schema("fault-manifest").at("properties").at("model");
  schema.erase("required");
  record::check_schema(document, schema);
  record::FaultModel model = inject::fault_model_from(document, "");
  if (options.seed) {
    model.seed = *options.seed;
  } else if (!document.value.contains("seed")) {
    model.seed = seed_from_system();
  }
  return model;
}

record::FaultModel model_of(const Options& options) {
  record::FaultModel model = options.model_file.empty() ? options.model : model_from_file(options);
  if (options.model_file.empty()) {
    model.allow_nan = !options.no_nan;
    model.seed = options.seed ? *options.seed : seed_from_system();
  }
  if (!model.count && !model.fraction && !model.ber) model.count = 1;
  return model;
}

/// Bits of a population, by role and field.
record::Json describe_population(const inject::Population& population) {
  struct Row {
    std::uint64_t tensors = 0, elements = 0;
    std::map<std::string, std::uint64_t> bits{{"sign", 0}, {"exponent", 0}, {"mantissa", 0}};
  };
  std::map<std::string, Row> rows;
  for (const inject::Target& target : population.targets()) {
    Row& row = rows[target.role];
    row.tensors += 1;
    row.elements += target.elements;
    for (const unsigned bit : target.bits) row.bits[field_of_bit(target.format, bit)] += target.elements;
  }
  record::Json list = record::Json::array();
  for (const auto& [role, row] : rows) {
    list.push_back(
        {{"role", role}, {"tensors", row.tensors}, {"elements", row.elements}, {"bits", row.bits}});
  }
  return list;
}

std::string population_table(const record::Json& rows, bool whole_elements) {
  Table table(whole_elements ? std::vector<std::string>{"role", "tensors", "elements"}
                             : std::vector<std::string>{"role", "tensors", "elements", "sign bits",
                                                        "exponent bits", "mantissa bits"});
  for (const record::Json& row : rows) {
    std::vector<std::string> cells = {row["role"], with_commas(row["tensors"]), with_commas(row["elements"])};
    for (const char* field : {"sign", "exponent", "mantissa"}) {
      if (!whole_elements) cells.push_back(with_commas(row["bits"][field]));
    }
    table.add(std::move(cells));
  }
  return table.text();
}

/// "30", "23,30", "0-31".
std::string bits_text(std::vector<unsigned> bits) {
  std::sort(bits.begin(), bits.end());
  if (bits.size() > 2 && bits.back() - bits.front() + 1 == bits.size()) {
    return fmt::format("{}-{}", bits.front(), bits.back());
  }
  return fmt::format("{}", fmt::join(bits, ","));
}

std::string fault_table(const std::vector<record::AppliedFault>& faults) {
  Table table({"tensor", "element", "dtype", "bits", "MSB-first", "field", "old", "new", "value"});
  for (std::size_t i = 0; i < faults.size() && i < kMostShown; ++i) {
    const record::Json row = inject::describe_fault(faults[i]);
    table.add({faults[i].tensor, std::to_string(faults[i].element), faults[i].dtype,
               bits_text(faults[i].bits), bits_text(row["msb_first_bits"]), faults[i].field, row["old"],
               row["new"],
               row["old_value"].get<std::string>() + " -> " + row["new_value"].get<std::string>()});
  }
  std::string text = faults.empty() ? "" : table.text();
  if (faults.size() > kMostShown) {
    text +=
        fmt::format("... and {} more (all of them with --json or --manifest)\n", faults.size() - kMostShown);
  }
  return text;
}

std::string summary_line(const Options& options, const inject::Manifest& manifest) {
  const inject::Plan& plan = manifest.plan;
  std::uint64_t elements = 0;
  std::uint64_t bits = 0;
  for (const record::AppliedFault& fault : plan.faults) {
    const auto changed = static_cast<std::uint64_t>(std::popcount(fault.old_pattern ^ fault.new_pattern));
    elements += changed > 0 ? 1 : 0;
    bits += changed;
  }
  std::string text = fmt::format("{}, {} changed", counted(elements, "element"), counted(bits, "bit"));
  if (elements < plan.faults.size()) {
    text += fmt::format(" ({} held the new value already)", with_commas(plan.faults.size() - elements));
  }
  text += fmt::format("; {} targeted in {}; seed {}", counted(plan.eligible_bits, "bit"),
                      counted(plan.eligible_elements, "element"), manifest.model.seed);
  if (plan.redrawn > 0) text += fmt::format("; {} drawn again", counted(plan.redrawn, "sample"));
  if (options.dry_run) return text + "; dry run, nothing was written\n";
  if (options.in_place) return text + fmt::format("; take back with: bitrift undo {}\n", options.file);
  return text + fmt::format("; written to {}\n", options.output);
}

void report(const Options& options, const inject::Manifest& manifest, const record::Json& population) {
  if (!options.json) {
    const std::string head =
        population.empty() ? "" : population_table(population, manifest.model.what != "flip");
    print(head + (head.empty() ? "" : "\n") + fault_table(manifest.plan.faults) +
          summary_line(options, manifest));
    return;
  }
  record::Json value = inject::to_json(manifest);
  value["schema"] = "bitrift/injection/1";
  value["dry_run"] = options.dry_run;
  if (!population.empty()) value["population"] = population;
  if (!options.dry_run) value["output"] = options.in_place ? options.file : options.output;
  print_json(value);
}

inject::Manifest make_manifest(const Options& options, record::Json& population) {
  const ckpt::Reader reader(options.file);
  if (!options.replay.empty()) {
    inject::Manifest manifest = inject::read_manifest(options.replay);
    inject::check_replay(reader, manifest, options.force);
    return manifest;
  }
  inject::Manifest manifest;
  manifest.base_path = options.file;
  manifest.model = model_of(options);
  manifest.plan = inject::plan(reader, manifest.model);
  if (options.dry_run) population = describe_population(inject::population_of(reader, manifest.model));
  return manifest;
}

void apply(const Options& options, const inject::Manifest& manifest) {
  if (options.in_place) {
    inject::inject_in_place(options.file, manifest.plan.faults);
  } else {
    inject::inject_copy(options.file, options.output, manifest.plan.faults);
  }
}

std::string manifest_text(const inject::Manifest& manifest) {
  try {
    return inject::to_json(manifest).dump(2) + "\n";
  } catch (const record::Json::type_error&) {
    fail(ErrorCode::unsupported,
         "a tensor's name is not UTF-8, so no manifest can hold it; leave out --manifest");
  }
}

void inject_faults(const Options& options) {
  check_options(options);
  record::Json population;
  inject::Manifest manifest = make_manifest(options, population);
  manifest.provenance = record::provenance(command_line());
  if (!options.manifest.empty()) {
    manifest.base_path = options.file;
    manifest.base_digest = digest_file(options.file);
  }
  if (options.dry_run) return report(options, manifest, population);
  if (options.manifest.empty()) {
    apply(options, manifest);
  } else {
    // Its bytes are on the disk before the checkpoint changes; its name appears when the change is done.
    PendingFile pending(options.manifest);
    const std::string text = manifest_text(manifest);
    write_at(open_file(pending.path(), O_WRONLY), text.data(), text.size(), 0, options.manifest);
    apply(options, manifest);
    pending.commit();
  }
  report(options, manifest, population);
}

constexpr const char* kFooter =
    "Without --tensor and --role every numeric tensor is targeted but the checksums, which follow the "
    "tensors. Bit 0 is\n"
    "the least significant bit of the value. OUT is replaced if it exists. --in-place leaves FILE.undo for "
    "`bitrift undo`.\n"
    "Examples:\n"
    "  bitrift inject model.h5 -o out.h5 --tensor 'model/conv1.*' --bits exponent --count 10 --seed 7\n"
    "  bitrift inject model.h5 --in-place --role weight --bits 30 --manifest faults.json\n"
    "  bitrift inject other.h5 -o out.h5 --replay faults.json";

/// CLI11 itself would take -1 for 18446744073709551615.
CLI::Validator whole_number() {
  return {[](const std::string& text) {
            std::uint64_t value = 0;
            const char* const end = text.data() + text.size();
            const auto [rest, error] = std::from_chars(text.data(), end, value);
            const bool good = error == std::errc{} && rest == end;
            return good ? std::string() : "'" + text + "' is not a whole number from 0 to 2^64 - 1";
          },
          "", ""};
}

/// The options that make up a fault model; the file of --model or --replay takes their place.
std::vector<CLI::Option*> add_model_options(CLI::App& command, Options& options) {
  record::FaultModel& model = options.model;
  std::vector<CLI::Option*> added;
  const auto add = [&](CLI::Option* option, const char* group) {
    option->group(group);
    added.push_back(option);
    return option;
  };
  const char* const where = "Where";
  add(command.add_option("--tensor", model.tensors,
                         "path pattern, may be repeated: * stays within one name, ** crosses . and /"),
      where)
      ->allow_extra_args(false)
      ->type_name("GLOB");
  add(command.add_option("--role", model.roles,
                         "weight, bias, norm, momentum, ... (see bitrift ls); may be repeated"),
      where)
      ->allow_extra_args(false)
      ->type_name("ROLE");
  add(command.add_option(
          "--bits", model.bits,
          "any (default), sign, exponent, mantissa, exponent_msb, LO-HI or a list such as 3,7,30"),
      where)
      ->type_name("FIELD");
  add(command.add_flag("--keep-sign", model.keep_sign, "never touch the sign bit"), where);
  const char* const what = "What and how many";
  add(command.add_option("--what", model.what, "flip (default), zero, nan or inf"), what)->type_name("KIND");
  add(command.add_option("--measure", model.measure,
                         "what is equally likely: bit (default), element or tensor"),
      what)
      ->type_name("UNIT");
  add(command.add_option("--plane", options.plane,
                         "value (default): as if it had changed before it was saved"),
      what)
      ->type_name("PLANE");
  add(command.add_option("--count", model.count, "number of faults (default: 1)"), what)
      ->check(whole_number())
      ->type_name("N");
  add(command.add_option("--fraction", model.fraction, "of the targeted elements, one fault each"), what)
      ->type_name("F");
  add(command.add_option("--ber", model.ber, "bit error rate: each targeted bit flips with this probability"),
      what)
      ->type_name("P");
  add(command.add_flag("--no-nan", options.no_nan, "draw again where the result is NaN or infinite"), what);
  return added;
}

void refuse_together(const CLI::Option* file_option, const std::vector<CLI::Option*>& others) {
  for (const CLI::Option* other : others) {
    if (file_option->count() == 0 || other->count() == 0) continue;
    fail(ErrorCode::bad_input, "{} brings a fault model of its own: leave out {}", file_option->get_name(),
         other->get_name());
  }
}

}  // namespace

void add_inject(CLI::App& app, ExitCode&) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inject", "Flip bits of a checkpoint, in a copy or in place");
  command->add_option("FILE", options->file, "an HDF5 file; only read unless --in-place is given")
      ->required()
      ->type_name("");
  const auto text = [&](const char* name, std::string& variable, const char* description) {
    return command->add_option(name, variable, description)->type_name("FILE");
  };
  text("-o,--output", options->output, "write the altered copy here");
  command->add_flag("--in-place", options->in_place, "alter FILE itself, with an undo journal");
  std::vector<CLI::Option*> model_options = add_model_options(*command, *options);
  CLI::Option* seed =
      command->add_option("--seed", options->seed, "default: drawn from the system, and printed")
          ->check(whole_number())
          ->type_name("S");
  CLI::Option* model = text("--model", options->model_file, "read the fault model from a JSON file");
  CLI::Option* replay =
      text("--replay", options->replay, "apply the faults of a manifest again, bit for bit");
  command->add_flag("--force", options->force, "replay onto another base, if all old values fit");
  text("--manifest", options->manifest, "write what was done, for --replay");
  command->add_flag("--dry-run", options->dry_run,
                    "print what is targeted and what would change; write nothing");
  command->add_flag("--json", options->json, "print JSON instead of a table");
  command->footer(kFooter);
  command->callback([options, model_options, seed, model, replay] {
    refuse_together(model, model_options);
    refuse_together(replay, model_options);
    refuse_together(replay, {model, seed});
    inject_faults(*options);
  });
}

}  // namespace bitrift::cli
