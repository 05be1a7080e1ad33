#include "campaign/shard/stand_in.h"

#include <system_error>
#include <utility>

#include "campaign/folder/work_place.h"
#include "campaign/worker/scratch.h"

namespace bitrift::campaign {
namespace {

// Before the journal's first row, or that row would be read twice.
const std::filesystem::path& left_out(ShardJournals& journals, const Lease& lease) {
  journals.leave_out(start_name(lease.folder()));
  return lease.folder();
}

}  // namespace

StandIn::StandIn(std::unique_ptr<Lease> lease, const ShardId& id, ShardJournals& journals)
    : lease_(std::move(lease)),
      id_(id),
      journals_(journals),
      journal_(DriverPlace{left_out(journals, *lease_)}.journal()),
      ledger_(journal_, &journals_, id_.index) {
  remove_earlier_work(*lease_);
  std::error_code ignored;
  std::filesystem::create_directories(lease_->folder().parent_path() / "done", ignored);
  std::filesystem::remove(wanted_file(lease_->folder().parent_path()),
                          ignored);  // of a driver that was killed
}

StandIn::~StandIn() { journals_.read_again(start_name(lease_->folder())); }

bool StandIn::wanted() const {
  std::error_code ignored;
  return std::filesystem::exists(wanted_file(lease_->folder().parent_path()), ignored);
}

std::filesystem::path wanted_file(const std::filesystem::path& shard_folder) {
  return shard_folder / "wanted";
}

std::string start_name(const std::filesystem::path& start) {
  return start.parent_path().filename().string() + "/" + start.filename().string();
}

void remove_earlier_work(const Lease& lease) {
  const auto shard = lease.folder().parent_path();
  for (int start = 1; start < lease.number(); ++start)
    remove_work(DriverPlace{numbered_folder(shard, start)}.work());
  remove_scratch_of(shard);
}

}  // namespace bitrift::campaign
