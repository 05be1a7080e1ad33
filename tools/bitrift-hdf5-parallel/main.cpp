// bitrift-hdf5-parallel: writes a checkpoint with several ranks through HDF5's parallel interface, and times
// it. A reference for the studies of checkpoints: bitrift's own files are written without it.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <unistd.h>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "h5parallel/parallel_save.h"
#include "h5parallel/read_back.h"
#include "launch/launch.h"
#include "mpi/environment.h"
#include "options/one_of.h"
#include "options/whole_number.h"
#include "record/provenance.h"

namespace bitrift::cli {
namespace {

using h5parallel::Transfer;

constexpr const char* program = "bitrift-hdf5-parallel";

enum class Drill { flip };
constexpr EnumNames<1> names_of(Drill) { return {"drill", {"flip"}}; }

struct Arguments {
  std::filesystem::path source, output;
  std::string transfer = name_of(Transfer::collective);
  int ranks = 2;
  int saves = 1;
  double pause = 0;  // s, before each save
  bool json = false;
  std::string drill;
  std::filesystem::path temporary;  // folder; "": the ranks make one
  std::vector<std::string> words;
};

void complain(const std::string& text) {
  fmt::print(stderr, "{}: error: {}\n", program, text.substr(0, text.find('\n')));
}

// A folder beside the output, for what is not complete yet.
void make_folder(std::optional<TemporaryFolder>& folder, const Arguments& arguments) {
  folder.emplace("." + arguments.output.filename().string() + ".tmp",
                 std::filesystem::absolute(arguments.output).parent_path());
}

// Alters a value of the largest tensor, so that reading back must notice it.
void flip_a_value(const std::filesystem::path& path) {
  std::uint64_t at = 0, most = 0;
  {
    const ckpt::Reader reader(path);
    for (const ckpt::TensorInfo& tensor : reader.tensors()) {
      if (!tensor.offset || tensor.stored_bytes <= most) continue;
      most = tensor.stored_bytes;
      at = *tensor.offset + most / 2;
    }
  }
  const FileDescriptor file = open_file(path, O_RDWR);
  char byte = 0;
  if (::pread(file.get(), &byte, 1, static_cast<off_t>(at)) != 1) fail(ErrorCode::io, "{}", path.string());
  byte = static_cast<char>(byte ^ 1);
  if (::pwrite(file.get(), &byte, 1, static_cast<off_t>(at)) != 1) fail(ErrorCode::io, "{}", path.string());
}

struct Outcome {
  std::vector<double> seconds;
  std::string wrong;  // how the last file differs from the source; "" if it does not
};

// The disk comes to rest before each save. Each file is compared, because a fault may depend on the moment.
Outcome timed_saves(const Arguments& arguments, const std::filesystem::path& folder,
                    const mpi::Communicator& ranks) {
  std::optional<ckpt::Reader> source;
  std::vector<h5parallel::TensorPart> parts;
  mpi::agreed(ranks, [&] {
    source.emplace(arguments.source);
    parts = h5parallel::read_part(*source, ranks.rank(), ranks.size());
  });
  const auto transfer = parse_named<Transfer>(arguments.transfer);
  Outcome outcome;
  for (int i = 0; i < arguments.saves && outcome.wrong.empty(); ++i) {
    if (arguments.pause > 0) ::sync();
    std::this_thread::sleep_for(std::chrono::duration<double>(arguments.pause));
    outcome.seconds.push_back(h5parallel::save(ranks, parts, folder / "file.h5", arguments.output, transfer));
    mpi::agreed(ranks, [&] {
      if (ranks.rank() != 0) return;
      if (!arguments.drill.empty()) flip_a_value(arguments.output);
      outcome.wrong = h5parallel::difference(*source, arguments.output).value_or("");
    });
    ranks.broadcast(outcome.wrong, 0);
  }
  return outcome;
}

void report(const Arguments& arguments, int ranks, std::vector<double> seconds, const std::string& library) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t half = seconds.size() / 2;
  const double median = seconds.size() % 2 == 1 ? seconds[half] : (seconds[half - 1] + seconds[half]) / 2;
  const std::uintmax_t bytes = std::filesystem::file_size(arguments.output);
  if (arguments.json) {
    const record::Json times = {
        {"median", median}, {"min", seconds.front()}, {"max", seconds.back()}, {"saves", seconds.size()}};
    const record::Json value = {
        {"file", arguments.output.string()}, {"bytes", bytes},         {"ranks", ranks},
        {"transfer", arguments.transfer},    {"block_seconds", times}, {"library", library}};
    fmt::print("{}\n", value.dump(2));
    return;
  }
  fmt::print("{}: {} bytes by {} ranks, {}: {:.4f} s ({:.4f} .. {:.4f}); read back: equal\n",
             arguments.output.string(), bytes, ranks, arguments.transfer, median, seconds.front(),
             seconds.back());
}

// On every rank, under mpirun.
int save_and_check(const Arguments& arguments, mpi::Environment& environment) {
  const mpi::Communicator& ranks = environment.world();
  std::optional<TemporaryFolder> own;
  std::string folder = arguments.temporary.string();
  if (folder.empty()) {
    mpi::agreed(ranks, [&] {
      if (ranks.rank() != 0) return;
      make_folder(own, arguments);
      folder = own->path().string();
    });
    ranks.broadcast(folder, 0);
  }
  const Outcome outcome = timed_saves(arguments, folder, ranks);
  const std::string mpi = environment.library();
  const std::string library =
      fmt::format("HDF5 {} on {}", h5parallel::hdf5_version(), mpi.substr(0, mpi.find(',')));
  if (ranks.rank() == 0 && outcome.wrong.empty()) report(arguments, ranks.size(), outcome.seconds, library);
  if (ranks.rank() == 0 && !outcome.wrong.empty()) {
    complain(fmt::format("{}: {}, although {} reported no error; do not use this MPI-IO",
                         arguments.output.string(), outcome.wrong, library));
  }
  return outcome.wrong.empty() ? 0 : 1;
}

int run_rank(const Arguments& arguments) {
  mpi::Environment environment;
  try {
    const int code = save_and_check(arguments, environment);
    environment.finalize();
    return code;
  } catch (const mpi::AgreedError& error) {  // of all ranks
    if (environment.world().rank() == 0) complain(error.what());
    environment.finalize();
    return error.exit_code();
  } catch (const Error& error) {
    complain(error.what());
    leave_exit_code(error.exit_code());
    environment.abort(error.exit_code());
  }
}

int run(int count, char** words) {
  CLI::App app(
      "Write the tensors of a checkpoint to one HDF5 file with several ranks, by HDF5's parallel interface "
      "(MPI-IO); time it, read the file back and compare.",
      program);
  Arguments arguments;
  arguments.words.assign(words + 1, words + count);
  app.set_version_flag("--version", fmt::format("{} {}", program, record::bitrift_version()));
  app.add_option("SOURCE", arguments.source, "Checkpoint of any format that bitrift reads")->required();
  app.add_option("-o,--output", arguments.output, "HDF5 file to write")->required();
  app.add_option("--transfer", arguments.transfer,
                 "How ranks write: collective (default) or independent of each other")
      ->check(one_of<Transfer>());
  app.add_option("--ranks", arguments.ranks, "Number of ranks (default: 2), each with a part of every tensor")
      ->check(whole_number(1, 1024))
      ->type_name("N");
  app.add_option("--saves", arguments.saves, "Save this many times, and compare each file (default: 1)")
      ->check(whole_number(1, 1'000'000))
      ->type_name("N");
  app.add_option("--pause", arguments.pause, "Seconds of rest before each save (default: 0)")
      ->check(CLI::Range(0.0, 3600.0))
      ->type_name("S");
  app.add_flag("--json", arguments.json, "Print the result as JSON");
  app.add_option("--temporary", arguments.temporary)->group("");
  app.add_option("--drill", arguments.drill)->check(one_of<Drill>())->group("");
  app.footer(
      "The program restarts itself under mpirun, unless it already runs under one. The environment variable "
      "BITRIFT_MPIRUN selects another mpirun.\n"
      "Exit codes: 0 success, 1 the file holds other values than it should, 2 usage or input error, 3 "
      "internal error in bitrift");
  try {
    app.parse(count, words);
  } catch (const CLI::Success& asked_for_text) {
    return app.exit(asked_for_text);
  } catch (const CLI::ParseError& error) {
    complain(fmt::format("{} (see {} --help)", error.what(), program));
    return 2;
  }
  if (mpi::started_by_launcher()) return run_rank(arguments);
  // Made here, it is removed even if a rank ends all others.
  std::optional<TemporaryFolder> folder;
  make_folder(folder, arguments);
  arguments.words.insert(arguments.words.end(), {"--temporary", folder->path().string()});
  const JobEnd end = run_mpirun({.ranks = arguments.ranks, .options = {}, .arguments = arguments.words});
  if (end.lost)
    complain((end.no_start.empty() ? "a rank was lost, and the save with it" : end.no_start) +
             "; see what mpirun says");
  return end.code;
}

}  // namespace
}  // namespace bitrift::cli

int main(int count, char** words) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is then an error, like a full disk
  bitrift::start_logging(bitrift::cli::program);
  int code = 3;
  try {
    code = bitrift::cli::run(count, words);
  } catch (const bitrift::Error& error) {
    bitrift::cli::complain(error.what());
    code = error.exit_code();
  } catch (const std::exception& error) {
    bitrift::cli::complain(error.what());
  }
  if (bitrift::mpi::launched_rank() == 0) bitrift::cli::leave_exit_code(code);
  return code;
}
