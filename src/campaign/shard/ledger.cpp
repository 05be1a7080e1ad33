#include "campaign/shard/ledger.h"

namespace bitrift::campaign {

const record::TrialRecord* Ledger::find(const record::TrialId& id) const {
  const record::TrialRecord* row = own_.rows().find(id);
  return row != nullptr || others_ == nullptr ? row : others_->find(id);
}

const record::TrialRecord* Ledger::find_own(const record::TrialId& id) const {
  const record::TrialRecord* row = own_.rows().find(id);
  return row != nullptr || others_ == nullptr ? row : others_->find_in(shard_, id);
}

std::vector<record::TrialRecord> Ledger::effective() const {
  if (others_ == nullptr) return own_.rows().effective();
  RowUnion all;
  all.add(own_.rows().effective(), "this start");
  others_->add_to(all);
  return all.rows();
}

}  // namespace bitrift::campaign
