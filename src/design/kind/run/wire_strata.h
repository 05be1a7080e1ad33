// Links of a mesh that alter messages of gradients (docs/spec.md, "Links that alter messages").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "design/kind/kind.h"
#include "design/kind/run/run_end.h"
#include "design/kind/run/steps.h"
#include "record/fault/message_map.h"

namespace bitrift::design {

/// Each kind of message x bit field is a stratum "<kind>.<field>".
struct WireStrata final : Kind {
  std::vector<std::string> fields;  ///< as in BitStrata
  std::vector<record::MessageKind> kinds = {record::MessageKind::add, record::MessageKind::copy};
  std::optional<StepRange> steps = {};              ///< in which messages are altered; absent: all of a run
  std::optional<record::MessageMap> messages = {};  ///< of the arms; known once the campaign has begun

  [[nodiscard]] record::Json to_json() const override;
  [[nodiscard]] std::vector<record::Stratum> strata() const override;
  void check(const record::Document& document, const std::vector<record::Parallel>& arms,
             const std::vector<record::RecoverySpec>&) const override;
  [[nodiscard]] std::unique_ptr<const Population> population(std::size_t index,
                                                             const Setting& setting) const override;
  [[nodiscard]] const char* members() const override { return "bits"; }
  [[nodiscard]] std::optional<FactNeeded> fact_needed() const override;
  [[nodiscard]] std::optional<record::Json> fact() const override;
  [[nodiscard]] Strata with_fact(const record::Json& fact) const override;
  [[nodiscard]] std::optional<std::int64_t> steps_of_run(std::int64_t epochs) const override;
  [[nodiscard]] bool alters_file() const override { return false; }
  [[nodiscard]] const char* plane(const std::string&) const override { return record::wire_plane; }
  [[nodiscard]] std::vector<Canary> canaries(const record::RecoverySpec&) const override;
  void plant(const std::string& stratum, const Setting& setting, const record::RecoverySpec&,
             record::TrialSpec& run) const override;
  [[nodiscard]] Sentences sentences(const std::optional<std::uint64_t>& size) const override;
  [[nodiscard]] std::string no_rates_by(const std::string& word) const override;
};

/// Reads the value at /strata/wire of a document that obeys the schema. Throws Error(bad_input) with file,
/// line and key.
[[nodiscard]] Strata wire_strata_from(const record::Document& document);

/// Steps x (bucket, send of this kind) x elements of its chunk x bits of the field: every bit that a run of
/// the arm sends in such messages, once.
class MessagePopulation final : public ListedPopulation {
 public:
  /// Throws Error(bad_input) when strata.messages is not known, a step is beyond the end of a run, the kind
  /// is never sent, the number format has no such bit, or there are more than 2^47 members.
  MessagePopulation(record::MessageKind kind, const std::string& field, const WireStrata& strata,
                    std::int64_t epochs);

  [[nodiscard]] std::uint64_t size() const override;
  [[nodiscard]] record::Faults member(std::uint64_t index, std::size_t) const override {
    return std::vector{at(index)};
  }
  [[nodiscard]] record::LinkFault at(std::uint64_t index) const;

 private:
  struct Message {
    std::int64_t bucket, send;
    std::uint64_t before;  // elements of the earlier messages
  };
  std::int64_t first_step_ = 1;
  std::uint64_t steps_ = 0, elements_ = 0;  // elements: of all messages of a step
  std::vector<unsigned> bits_;
  std::vector<Message> messages_;
};

/// Whether each fault altered one bit of one message, and no other message was altered. For a run without a
/// result this is not known: false.
[[nodiscard]] bool landed(const std::vector<record::LinkFault>& faults, const RunEnd& end);

}  // namespace bitrift::design
