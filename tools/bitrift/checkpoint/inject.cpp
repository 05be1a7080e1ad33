#include <algorithm>
#include <charconv>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/random.h>

#include "checkpoint/inject_report.h"
#include "ckpt/dialect/roles.h"
#include "commands.h"
#include "core/error.h"
#include "inject/draw/selection.h"
#include "inject/manifest/manifest.h"
#include "inject/manifest/manifest_text.h"
#include "inject/manifest/replay.h"
#include "inject/write/apply.h"
#include "inject/write/undo_journal.h"
#include "options/one_of.h"
#include "options/whole_number.h"
#include "output.h"
#include "record/json/schema.h"
#include "record/provenance.h"

namespace bitrift::cli {
namespace {

struct InjectOptions {
  std::string file, output, manifest, model_file, replay;
  std::optional<std::uint64_t> seed;
  record::FaultModel model;
  std::vector<std::string> as;
  std::string scope = "all", plane = name_of(record::Plane::value), what = name_of(record::FaultKind::flip);
  std::string measure = name_of(record::Measure::bit), mask_at, ecc, upset_mode, upset_rates;
  bool no_nan = false, compact = false;
  bool in_place = false, force = false, by_name = false, dry_run = false, json = false;
};

/// 53 bits, so that the seed survives programs that read JSON numbers as doubles.
std::uint64_t seed_from_system() {
  std::uint64_t seed = 0;
  if (::getrandom(&seed, sizeof seed, 0) != static_cast<ssize_t>(sizeof seed)) {
    fail(ErrorCode::io, "cannot get a random seed from the system; give one with --seed");
  }
  return seed >> 11;
}

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code ignored;
  return std::filesystem::absolute(a).lexically_normal() == std::filesystem::absolute(b).lexically_normal() ||
         std::filesystem::equivalent(a, b, ignored);
}

/// The value that an option names.
template <NamedEnum E>
E value_of(const char* option, const std::string& text,
           std::optional<E> (*find)(std::string_view) = find_named<E>) {
  if (const auto value = find(text)) return *value;
  fail(ErrorCode::bad_input, "{} '{}' is not supported: give one of {}", option, text, list_names<E>());
}

void check_options(const InjectOptions& options) {
  static_cast<void>(value_of<record::Plane>("--plane", options.plane));
  if (!options.output.empty() && options.in_place) {
    fail(ErrorCode::bad_input, "-o and --in-place exclude each other");
  }
  if (options.output.empty() && !options.in_place && !options.dry_run) {
    fail(ErrorCode::bad_input, "no output given: use -o OUT, --in-place or --dry-run");
  }
  if (options.force && options.replay.empty()) fail(ErrorCode::bad_input, "--force goes with --replay");
  if (options.by_name && options.replay.empty()) fail(ErrorCode::bad_input, "--by-name goes with --replay");
  if (options.by_name && options.force) {
    fail(ErrorCode::bad_input, "--by-name and --force exclude each other");
  }
  if (options.compact && (options.manifest.empty() || !options.replay.empty())) {
    fail(ErrorCode::bad_input, "--compact-manifest goes with --manifest, and not with --replay");
  }
  if (options.manifest.empty()) return;
  for (const std::string& other : {options.file, options.output, inject::undo_path(options.file).string()}) {
    if (!other.empty() && same_file(options.manifest, other)) {
      fail(ErrorCode::bad_input, "--manifest {} would overwrite {}", options.manifest, other);
    }
  }
}

record::FaultModel model_from_file(const InjectOptions& options) {
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

std::map<std::string, std::string> formats_of(const std::vector<std::string>& texts) {
  std::map<std::string, std::string> as;
  for (const std::string& text : texts) {
    const std::size_t at = text.rfind('=');
    if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
      fail(ErrorCode::bad_input, "--as '{}': expected GLOB=FORMAT, such as '**.kernel=bfloat16'", text);
    }
    if (!as.emplace(text.substr(0, at), text.substr(at + 1)).second) {
      fail(ErrorCode::bad_input,
           "--as '{}': this pattern already has a format; give one format for each pattern", text);
    }
  }
  return as;
}

record::Scope scope_of(const std::string& text) {
  record::Scope scope;
  if (text == "all") return scope;
  const std::size_t at = text.find('=');
  const std::string name = text.substr(0, at);
  std::vector<int> numbers;
  const char* next = text.data() + (at == std::string::npos ? text.size() : at + 1);
  const char* const end = text.data() + text.size();
  while (next < end) {
    int number = -1;
    const auto [rest, error] = std::from_chars(next, end, number);
    if (error != std::errc{} || number < 0 || (rest != end && (*rest != ',' || rest + 1 == end))) break;
    numbers.push_back(number);
    next = rest == end ? end : rest + 1;
  }
  const bool one = numbers.size() == 1 && next == end;
  if (name == "replicas" && one && numbers[0] > 0) {
    scope.count = numbers[0];
  } else if (name == "stage" && one) {
    scope.stage = numbers[0];
  } else if (name == "replica" && !numbers.empty() && next == end) {
    std::sort(numbers.begin(), numbers.end());
    numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
    scope.replicas = std::move(numbers);
  } else {
    fail(ErrorCode::bad_input,
         "--scope '{}' is not supported: give all, replicas=N (N random replicas), replica=R or R,R,... "
         "(these replicas), or stage=S",
         text);
  }
  return scope;
}

std::optional<record::MaskPlace> mask_place_of(const std::string& text) {
  const auto place = find_named<record::MaskPlace>(text);
  if (place || text.empty()) return place;
  fail(ErrorCode::bad_input, "--mask-at '{}' is not supported: give aligned (to bit 0) or random", text);
}

record::FaultModel model_of(const InjectOptions& options) {
  record::FaultModel model = options.model_file.empty() ? options.model : model_from_file(options);
  if (options.model_file.empty()) {
    model.plane = value_of<record::Plane>("--plane", options.plane);
    model.as = formats_of(options.as);
    model.scope = scope_of(options.scope);
    model.allow_nan = !options.no_nan;
    model.seed = options.seed ? *options.seed : seed_from_system();
    model.what = value_of<record::FaultKind>("--what", options.what, record::find_fault_kind);
    model.mask_at = mask_place_of(options.mask_at);
    model.measure = value_of<record::Measure>("--measure", options.measure);
    if (!options.ecc.empty()) model.ecc = value_of<record::Ecc>("--ecc", options.ecc);
    if (!options.upset_mode.empty())
      model.upset_mode = value_of<record::UpsetMode>("--upset-mode", options.upset_mode);
    if (!options.upset_rates.empty())
      model.upset_rates = value_of<record::UpsetRates>("--upset-rates", options.upset_rates);
  }
  return model;
}

inject::Manifest make_manifest(const InjectOptions& options, InjectReport& shown) {
  const ckpt::Reader reader(options.file);
  if (!options.replay.empty()) {
    inject::Manifest manifest = inject::read_manifest(options.replay);
    const auto same = options.by_name ? inject::SameBase::tensors
                      : options.force ? inject::SameBase::values
                                      : inject::SameBase::bytes;
    inject::check_replay(reader, manifest, same);
    shown.aliases = altered_aliases(reader, manifest);
    shown.files = altered_files(reader, manifest);
    return manifest;
  }
  inject::Manifest manifest;
  manifest.base_path = options.file;
  manifest.model = model_of(options);
  inject::set_default_count(reader, manifest.model);
  manifest.plan = inject::plan(reader, manifest.model);
  if (manifest.model.plane != record::Plane::metadata) {
    for (const ckpt::TensorInfo* const tensor : inject::left_out(reader, inject::choice_of(manifest.model)))
      shown.left_out.push_back(*tensor);
  }
  shown.aliases = altered_aliases(reader, manifest);
  shown.files = altered_files(reader, manifest);
  return manifest;
}

void apply(const InjectOptions& options, const inject::Manifest& manifest) {
  if (options.in_place) {
    inject::inject_in_place(options.file, manifest.plan.list);
  } else {
    inject::inject_copy(options.file, options.output, manifest.plan.list);
  }
}

void inject_faults(const InjectOptions& options) {
  check_options(options);
  if (options.in_place && !options.dry_run) inject::take_back_unfinished(options.file);
  InjectReport shown;
  inject::Manifest manifest = make_manifest(options, shown);
  shown.dry_run = options.dry_run;
  shown.in_place = options.in_place;
  shown.json = options.json;
  shown.replayed = !options.replay.empty();
  shown.written = options.in_place ? options.file : options.output;
  if (!options.manifest.empty() || options.json) manifest.provenance = record::provenance(command_line());
  if (!options.manifest.empty()) {
    inject::set_base(manifest, options.file);
  }
  if (options.dry_run) return report_injection(shown, manifest);
  if (options.manifest.empty()) {
    apply(options, manifest);
  } else {
    // Its bytes are on the disk before the checkpoint changes; its name appears when the change is done.
    PendingFile pending(options.manifest);
    manifest.compact = options.compact;
    const std::string text = inject::manifest_text(manifest);
    manifest.compact = false;
    write_at(open_file(pending.path(), O_WRONLY), text.data(), text.size(), 0, options.manifest);
    apply(options, manifest);
    pending.commit();
  }
  report_injection(shown, manifest);
}

constexpr const char* kFooter =
    "Without --tensor, --role or --layer, every numeric tensor that can be altered is a target, except the "
    "stored checksums. With --plane value, the checksums of altered tensors are updated.\n"
    "Bit 0 is the least significant bit of the value. The output file is replaced if it exists.\n"
    "--in-place writes FILE.undo, for `bitrift undo`.\n"
    "Examples:\n"
    "  bitrift inject model.h5 -o out.h5 --tensor 'model/conv1.*' --bits exponent --count 10 --seed 7\n"
    "  bitrift inject model.h5 -o out.h5 --tensor model/fc.weight --element 12 --bits 22,30\n"
    "  bitrift inject model.h5 --in-place --role weight --bits 30 --manifest faults.json\n"
    "  bitrift inject other.h5 -o out.h5 --replay faults.json\n"
    "  bitrift inject model.pt -o out.pt --role weight --bits exponent --count 3\n"
    "  bitrift inject model.h5 --dry-run --what upset --ecc secded\n\n";

/// Puts options into a group of the help, and keeps them.
struct OptionGroup {
  const char* name;
  std::vector<CLI::Option*>& added;
  CLI::Option* operator()(CLI::Option* option) const {
    option->group(name);
    added.push_back(option);
    return option;
  }
};

void add_where(CLI::App& command, InjectOptions& options, const OptionGroup& add) {
  record::FaultModel& model = options.model;
  add(command.add_option("--tensor", model.tensors,
                         "path pattern: * matches within one name, ** also matches . and /; repeatable"))
      ->allow_extra_args(false)
      ->type_name("GLOB");
  add(command.add_option("--exclude", model.exclude,
                         "path pattern of tensors that are not targets, whatever else fits; repeatable"))
      ->allow_extra_args(false)
      ->type_name("GLOB");
  add(command.add_option("--role", model.roles,
                         "weight, bias, norm, momentum, ... (see bitrift ls); repeatable"))
      ->allow_extra_args(false)
      ->check(suggest(ckpt::role_names()))
      ->type_name("ROLE");
  add(command.add_option("--layer", model.layers,
                         "first, middle, last, or a layer's number or name (see bitrift ls); repeatable"))
      ->allow_extra_args(false)
      ->check(suggest({"first", "middle", "last"}))
      ->type_name("LAYER");
  add(command.add_option(
          "--element", model.element,
          "only this element of the one chosen tensor (row-major index); with a range or list as "
          "--bits, all of its bits are altered unless --count is given"))
      ->check(whole_number())
      ->type_name("I");
  add(command.add_option("--bits", model.bits,
                         "any, sign, exponent, mantissa, exponent_msb, a range LO-HI or a list such as "
                         "3,7,30 (default: any)"))
      ->check(suggest({"any", "sign", "exponent", "mantissa", "exponent_msb"}))
      ->type_name("FIELD");
  add(command.add_option("--as", options.as,
                         "interpret matching tensors as another number format of the same width, such as "
                         "'**/kernel=bfloat16'; repeatable"))
      ->allow_extra_args(false)
      ->type_name("GLOB=FORMAT");
  add(command.add_option(
          "--scope", options.scope,
          "which replicas hold the fault: replicas=N (N at random) or replica=R,... (these); default: all"))
      ->type_name("WHO");
  add(command.add_flag("--keep-sign", model.keep_sign, "never change the sign bit"));
}

void add_what(CLI::App& command, InjectOptions& options, const OptionGroup& add) {
  record::FaultModel& model = options.model;
  add(command.add_option(
          "--what", options.what,
          "flip, burst, xor, stuck-at-0, stuck-at-1, upset, zero (or nullify), nan, inf, max, set, scale or "
          "random (default: flip)"))
      ->check(suggest(words_of<record::FaultKind>()))
      ->type_name("KIND");
  add(command.add_option("--length", model.length, "for burst: number of adjacent bits"))
      ->check(whole_number())
      ->type_name("N");
  add(command.add_option("--mask", model.mask, "for xor: mask, such as 101, 0b101 or 0x5"))
      ->type_name("MASK");
  add(command.add_option("--mask-at", options.mask_at,
                         "for xor: aligned (to bit 0) or random (default: aligned)"))
      ->check(suggest(words_of<record::MaskPlace>()))
      ->type_name("PLACE");
  add(command.add_option("--factor", model.factor,
                         "for scale: factor; the product is rounded once, to nearest even"))
      ->type_name("F");
  add(command.add_option("--value", model.value,
                         "for set: the new value; an integer tensor needs an integer in its range"))
      ->type_name("NUMBER");
  add(command.add_option("--ecc", options.ecc,
                         "for upset: the code of the memory: none, secded or chipkill; only upsets that "
                         "escape it are injected"))
      ->check(suggest(words_of<record::Ecc>()))
      ->type_name("CODE");
  add(command.add_option("--upset-mode", options.upset_mode,
                         "for upset: what of a DRAM chip fails: bit, word, column, row, bank or chip "
                         "(default: any of them, by their rates)"))
      ->check(suggest(words_of<record::UpsetMode>()))
      ->type_name("PART");
  add(command.add_option("--upset-rates", options.upset_rates,
                         "for upset: field rates of transient or permanent failures (default: transient)"))
      ->check(suggest(words_of<record::UpsetRates>()))
      ->type_name("KIND");
  add(command.add_option("--measure", options.measure,
                         "what is drawn uniformly: bit, element or tensor (default: bit)"))
      ->check(suggest(words_of<record::Measure>()))
      ->type_name("UNIT");
  add(command.add_option("--plane", options.plane,
                         "value: change numbers, and update their checksums, as if they had changed before "
                         "saving; storage: change "
                         "the stored bytes of numbers, and leave checksums as they are; metadata: change any "
                         "other byte of the "
                         "file (default: value)"))
      ->check(suggest(words_of<record::Plane>()))
      ->type_name("PLANE");
  add(command.add_option("--count", model.count, "number of faults (default: 1; see --element)"))
      ->check(whole_number())
      ->type_name("N");
  add(command.add_option("--fraction", model.fraction,
                         "fraction of the targeted elements to hit, with one fault each"))
      ->type_name("F");
  add(command.add_option("--ber", model.ber, "bit error rate: hit each targeted bit with this probability"))
      ->type_name("P");
  add(command.add_flag("--no-nan", options.no_nan, "redraw a fault whose result is NaN or infinite"));
}

/// The options that make up a fault model; the file of --model or --replay takes their place.
std::vector<CLI::Option*> add_model_options(CLI::App& command, InjectOptions& options) {
  std::vector<CLI::Option*> added;
  add_where(command, options, {"Where", added});
  add_what(command, options, {"What and how many", added});
  return added;
}

void refuse_together(const CLI::Option* file_option, const std::vector<CLI::Option*>& others) {
  for (const CLI::Option* other : others) {
    if (file_option->count() == 0 || other->count() == 0) continue;
    fail(ErrorCode::bad_input, "{} already defines the fault model: leave out {}", file_option->get_name(),
         other->get_name());
  }
}

}  // namespace

void add_inject(CLI::App& app, ExitCode&) {
  const auto options = std::make_shared<InjectOptions>();
  CLI::App* command = app.add_subcommand("inject", "Inject faults into a checkpoint, in a copy or in place");
  command
      ->add_option("FILE", options->file,
                   std::string(checkpoint_file) + "; never written to without --in-place")
      ->required()
      ->type_name("");
  const auto text = [&](const char* name, std::string& variable, const char* description) {
    return command->add_option(name, variable, description)->type_name("FILE");
  };
  text("-o,--output", options->output,
       "write the altered copy to this file; a copy of a folder to this new folder");
  command->add_flag("--in-place", options->in_place, "alter FILE itself, and keep an undo journal");
  std::vector<CLI::Option*> model_options = add_model_options(*command, *options);
  CLI::Option* seed = command
                          ->add_option("--seed", options->seed,
                                       "random seed, 0 to 2^64 - 1 (default: chosen at random and printed)")
                          ->check(whole_number())
                          ->type_name("S");
  CLI::Option* model = text("--model", options->model_file, "read the fault model from a JSON file");
  CLI::Option* replay =
      text("--replay", options->replay, "apply the faults of a manifest again, bit for bit");
  command->add_flag("--by-name", options->by_name,
                    "with --replay: accept a file with the same tensors, however they are stored");
  command->add_flag(
      "--force", options->force,
      "with --replay: accept any file in which each element to be changed still has the old value that the "
      "manifest lists");
  text("--manifest", options->manifest, "write the faults to this file, for --replay");
  command->add_flag("--compact-manifest", options->compact,
                    "with --manifest: instead of listing every fault, write the fault model, the seed and a "
                    "digest of FILE");
  command->add_flag("--dry-run", options->dry_run, "print what would change; write nothing");
  command->add_flag("--json", options->json, "print JSON instead of a table");
  command->footer(std::string(kFooter) + exit_codes);
  command->callback([options, model_options, seed, model, replay] {
    refuse_together(model, model_options);
    refuse_together(replay, model_options);
    refuse_together(replay, {model, seed});
    inject_faults(*options);
  });
}

}  // namespace bitrift::cli
