#include "study/part/damage.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include <fcntl.h>

#include "campaign/plan/ends.h"
#include "core/error.h"
#include "core/file.h"

namespace bitrift::study {
namespace {

bool holds_a_bit(const StudyFile& file, const std::vector<BitExtent>& extents) {
  return std::any_of(extents.begin(), extents.end(), [&](const BitExtent& extent) {
    const auto path = extent.file.empty() ? file.path : file.path / extent.file;
    std::vector<char> bytes(extent.end - extent.first);
    read_at(open_file(path, O_RDONLY), bytes.data(), bytes.size(), extent.first, path);
    return std::any_of(bytes.begin(), bytes.end(), [](char byte) { return byte != 0; });
  });
}

std::uint64_t total_bytes(const std::vector<BitExtent>& extents) {
  std::uint64_t bytes = 0;
  for (const BitExtent& extent : extents) bytes += extent.end - extent.first;
  return bytes;
}

bool ends_reader(DamageOutcome outcome) {
  return outcome == DamageOutcome::crash || outcome == DamageOutcome::hang;
}

std::uint64_t flips_of(const StudyFile& file, BitStratum stratum, const DamageSpec& spec) {
  return std::min(spec.flips, file.bits.bits(stratum));
}

}  // namespace

std::vector<BitExtent> extents_to_zero(const StudyFile& file) {
  std::map<std::string, std::vector<BitExtent>> tensors;
  for (const BitExtent& extent : file.bits.extents(BitStratum::payload))
    tensors[extent.structure].push_back(extent);
  std::vector<const std::vector<BitExtent>*> by_size;
  by_size.reserve(tensors.size());
  for (const auto& [name, extents] : tensors) by_size.push_back(&extents);
  std::stable_sort(by_size.begin(), by_size.end(),
                   [](const auto* a, const auto* b) { return total_bytes(*a) > total_bytes(*b); });
  const auto found = std::find_if(by_size.begin(), by_size.end(),
                                  [&](const auto* extents) { return holds_a_bit(file, *extents); });
  if (found != by_size.end()) return **found;
  fail(ErrorCode::unsupported,
       "{}: all tensors are zero, so that no canary shows that damage is noticed; "
       "study a checkpoint that was trained",
       file.path.string());
}

std::uint64_t damage_rows(const StudyFile& file, const DamageSpec& spec) {
  return names_of(DamageCanary{}).words.size() + flips_of(file, BitStratum::payload, spec) +
         flips_of(file, BitStratum::metadata, spec);
}

Damage::Damage(const DamageSpec& spec, NativeReader& reader, StudyJournal& journal,
               campaign::Progress& progress, std::filesystem::path work, bool read_original)
    : spec_(spec),
      reader_(reader),
      journal_(journal),
      progress_(progress),
      work_(std::move(work)),
      read_original_(read_original) {}

Judged Damage::read(const StudyFile& file, const WorkingCopy& copy) {
  const auto& path = read_original_ ? file.path : copy.path();
  const ReaderAnswer answer = reader_.read(file.kind.format, path, spec_.timeout_seconds);
  return judge(answer, reader_.facts().digests);
}

Judged Damage::read_flipped(const StudyFile& file, const WorkingCopy& copy, const BitFault& fault) {
  copy.flip(fault);
  Judged judged = read(file, copy);
  if (ends_reader(judged.outcome)) {
    copy.renew();
  } else {
    copy.flip(fault);
  }
  return judged;
}

void Damage::check_canary(const StudyFile& file, const WorkingCopy& copy, DamageCanary canary) {
  if (canary == DamageCanary::zeroed) copy.zero(extents_to_zero(file));
  const Judged judged = read(file, copy);
  if (canary == DamageCanary::zeroed) copy.renew();
  if ((judged.outcome == DamageOutcome::same) != (canary == DamageCanary::no_flip)) {
    throw campaign::Misbehaviour(fmt::format("{}: canary {}: the outcome is {}{}{}", file.kind.name(),
                                             name_of(canary), name_of(judged.outcome),
                                             judged.message.empty() ? "" : ": ", judged.message));
  }
  if (journal_.find(canary_id(file.kind, canary)) != nullptr) return;
  DamageResult result{
      .canary = canary, .outcome = judged.outcome, .message = judged.message, .missing = judged.missing};
  journal_.append({file.kind.format, file.kind.writer, std::move(result)});
  progress_.advance();
}

void Damage::run_stratum(const StudyFile& file, const WorkingCopy& copy, BitStratum stratum) {
  const auto faults = draw_faults(file.bits, file.kind, stratum, spec_.seed, spec_.flips);
  for (std::uint64_t draw = 0; draw < faults.size(); ++draw) {
    const BitFault& fault = faults[draw];
    if (const StudyRow* row = journal_.find(flip_id(file.kind, stratum, draw))) {
      if (std::get<DamageResult>(row->result).fault == fault) continue;
      fail(ErrorCode::conflict, "{} does not follow from the spec and {}; give another -o", row->id(),
           file.path.string());
    }
    Judged judged = read_flipped(file, copy, fault);
    // A machine that pauses looks like a hang: an end counts only if it occurs again in a new process.
    if (ends_reader(judged.outcome)) judged = read_flipped(file, copy, fault);
    journal_.append(
        {file.kind.format, file.kind.writer,
         DamageResult{{}, stratum, draw, fault, judged.outcome, std::move(judged.message), judged.missing}});
    progress_.advance();
  }
}

void Damage::run(const StudyFile& file) {
  const std::string digest = digest_of_files(file.path);
  const WorkingCopy copy(file.path, work_ / file.kind.file_name());
  check_canary(file, copy, DamageCanary::no_flip);
  check_canary(file, copy, DamageCanary::zeroed);
  run_stratum(file, copy, BitStratum::payload);
  run_stratum(file, copy, BitStratum::metadata);
  // A reader that had kept something of the damaged files would show it here.
  check_canary(file, copy, DamageCanary::no_flip);
  if (digest_of_files(copy.path()) != digest || digest_of_files(file.path) != digest) {
    throw campaign::Misbehaviour(
        fmt::format("{}: a reader changed the file that it was to read", file.kind.name()));
  }
}

}  // namespace bitrift::study
