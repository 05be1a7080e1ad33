// The folder of a campaign: the place of each file, the right to write, and the check that it holds one
// campaign only.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "campaign/launch/launch.h"
#include "campaign/plan/drills.h"
#include "campaign/plan/plan.h"
#include "core/file.h"
#include "core/process/subprocess.h"
#include "design/campaign_spec.h"
#include "record/json/json.h"
#include "record/round.h"

namespace bitrift::campaign {

/// The place where one driver writes: the campaign's folder, or that of one start of a shard.
struct DriverPlace {
  std::filesystem::path root;
  [[nodiscard]] std::filesystem::path journal() const { return root / "trials.jsonl"; }
  [[nodiscard]] std::filesystem::path incidents() const { return root / "incidents.jsonl"; }
  [[nodiscard]] std::filesystem::path work() const { return root / "work"; }
  [[nodiscard]] std::filesystem::path copy(const std::string& worker) const {
    return work() / worker / "ckpt.h5";
  }
  [[nodiscard]] std::filesystem::path log(const std::string& name) const {
    return root / "logs" / (name + ".log");
  }
};

/// Names inside a campaign's folder (docs/campaign.md, "The folder").
struct Layout {
  std::filesystem::path root;
  /// The files that the driver of an undivided campaign writes.
  [[nodiscard]] DriverPlace place() const { return {root}; }
  [[nodiscard]] std::filesystem::path identity() const { return root / "campaign.json"; }
  /// stem: of a record::BaseFile.
  [[nodiscard]] std::filesystem::path base_spec(const std::string& stem) const {
    return root / (stem + "-train.json");
  }
  /// The base that is there, under any of record::kept_extensions(); STEM.h5 if there is none.
  [[nodiscard]] std::filesystem::path base(const std::string& stem) const;
  [[nodiscard]] std::filesystem::path journal() const { return place().journal(); }
  [[nodiscard]] std::filesystem::path incidents() const { return place().incidents(); }
  [[nodiscard]] std::filesystem::path summary() const { return root / "summary.json"; }
  [[nodiscard]] std::filesystem::path audit() const { return root / "audit.json"; }
  [[nodiscard]] std::filesystem::path lock() const { return root / "lock"; }
  [[nodiscard]] std::filesystem::path round(std::uint64_t number) const;
  [[nodiscard]] std::filesystem::path shards() const { return root / "shards"; }
  [[nodiscard]] std::filesystem::path work() const { return place().work(); }
  [[nodiscard]] std::filesystem::path copy(const std::string& worker) const { return place().copy(worker); }
  [[nodiscard]] std::filesystem::path log(const std::string& name) const { return place().log(name); }
};

/// A stored campaign, read-only.
struct StoredCampaign {
  design::CampaignSpec spec;
  Drills drills;
  int shards = 0;                                   ///< how many drivers share the folder; 0: undivided
  std::map<std::string, std::string> base_digests;  ///< by stem; bases that do not exist yet are missing
  record::Json environment;                         ///< see numeric_environment(); recorded at the first
                                                    ///< start
  [[nodiscard]] bool has_bases() const { return base_digests.size() >= spec.files.size(); }
};

/// Reads campaign.json. Throws Error(not_found) when the folder holds none, Error(bad_file).
[[nodiscard]] StoredCampaign read_stored_campaign(const Layout& layout);

/// Whether a campaign began in this folder with a version that had no reader canaries.
[[nodiscard]] bool began_without_reader_canaries(const std::filesystem::path& root);

/// The published rounds from the first on. Throws Error(bad_file) that names the file.
[[nodiscard]] std::vector<record::Round> read_rounds(const Layout& layout);

/// Throws Error(conflict) that names the file when a base is not the one that the campaign began with.
void check_bases(const Layout& layout, const std::map<std::string, std::string>& digests);
/// Opens the bases of a campaign. Throws as ckpt::Reader does.
[[nodiscard]] Bases open_bases(const Layout& layout, const design::CampaignSpec& spec);

/// What a start may do with a folder that was started with another spec.
enum class OtherSpec { refuse, extend };

/// A campaign's folder: held by its one driver, or shared by the drivers of `shards` shards.
class Folder {
 public:
  /// Creates or opens the folder and, when it is undivided, locks it. Throws Error(busy) when another driver
  /// runs, Error(conflict) that names the first differing key when it belongs to another spec, other drills
  /// or another number of shards (0: undivided), Error(bad_input) when it holds other files, Error(io). An
  /// undivided campaign without a row accepts another spec. With OtherSpec::extend, a spec that adds to that
  /// of the folder is accepted; it is stored by extend().
  Folder(const std::filesystem::path& root, const design::CampaignSpec& spec, const Drills& drills,
         const std::vector<std::string>& command, int shards = 0, OtherSpec other = OtherSpec::refuse);

  [[nodiscard]] const Layout& layout() const noexcept { return layout_; }
  /// Includes the earlier specs if the campaign was or is to be extended.
  [[nodiscard]] const design::CampaignSpec& spec() const noexcept { return spec_; }
  /// "" or a note for people about what was done with another spec.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }
  /// Whether extend() is still to be called.
  [[nodiscard]] bool extends() const noexcept { return extends_; }
  /// Stores the added spec in campaign.json, after the earlier ones. Where there are several shards, one
  /// at a time may call it; the first one extends the campaign. Throws Error(conflict) when another start has
  /// extended the campaign differently.
  void extend();
  /// Whether campaign.json holds the digests of all bases at this moment.
  [[nodiscard]] bool has_bases();
  /// Removes what a killed maker of bases left behind; only the process that makes them now may call this.
  void remove_unfinished_bases();
  /// Makes the missing bases (trains, copies or converts), and checks that existing bases, and the
  /// checkpoints from which they were copied, have not changed since the first start. Asks scripts about
  /// bases (ask_about_base): about new ones, and as long as there is no row. say: called with the current
  /// task when it takes time. Throws Error(conflict | io | bad_input | internal).
  void prepare_bases(const Launch& launch, const std::function<void(std::string)>& say);
  /// Fills in what spec().files say of tensors that the script does not load or use; call it after
  /// prepare_bases(). It includes the result of another shard.
  void note_answers();
  /// The digests of the bases that prepare_bases() made or checked, by stem.
  [[nodiscard]] std::map<std::string, std::string> base_digests() const;
  /// Publishes the plan of a round, unless it exists; then throws Error(conflict) when it differs.
  void publish_round(const record::Round& planned);
  /// See environment_hint().
  [[nodiscard]] std::string environment_hint() const;
  /// Keeps in campaign.json what the first worker said about its libraries and processor.
  void note_trainer(const record::Json& environment);

 private:
  /// Whether the name now holds this text, because it did not exist before.
  [[nodiscard]] bool publish(const std::filesystem::path& path, const std::string& text);
  [[nodiscard]] bool take_start_deadline();
  void compare_shards(const record::Json& stored) const;
  void compare_stored(const Drills& drills, OtherSpec other);
  [[nodiscard]] bool has_rows() const;
  void replace_spec(const record::Json& fresh, const std::string& difference);
  [[nodiscard]] record::Json asked_of(std::size_t file, const Launch& launch,
                                      const std::function<void(std::string)>& say) const;
  void make_base(const record::BaseFile& file, const std::filesystem::path& trainer);
  void run_trainer(const Command& command, const std::filesystem::path& out, const std::string& what,
                   const std::filesystem::path& log);
  void store_identity();

  Layout layout_;
  design::CampaignSpec spec_;
  int shards_;
  FileDescriptor lock_;
  record::Json identity_;
  std::vector<std::string> command_;
  std::string note_;
  bool extends_ = false;
};

}  // namespace bitrift::campaign
