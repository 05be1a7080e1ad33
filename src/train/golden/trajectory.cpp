#include "train/golden/trajectory.h"

namespace bitrift::train {

std::string mark_digest(Session& session, const record::ScheduleSpec& schedule) {
  std::vector<std::string> lines = session.digest_lines(true);
  if (schedule.name != record::ScheduleName::plateau || schedule.monitor != record::Monitor::train_loss) {
    std::erase_if(lines, [](const std::string& line) {
      return line.starts_with("progress/epoch_loss_sum\t") || line.starts_with("progress/epoch_correct\t");
    });
  }
  return state_digest(std::move(lines));
}

}  // namespace bitrift::train
