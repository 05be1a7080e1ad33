#include "campaign/worker/job.h"

namespace bitrift::campaign {

bool same_failure(const record::Failure& first, const record::Failure& second) {
  return first.reason == second.reason && first.signal == second.signal;
}

std::string without_place(std::string text, const std::filesystem::path& copy) {
  const std::string place = copy.string();
  for (auto at = text.find(place); at != std::string::npos; at = text.find(place)) {
    text.replace(at, place.size(), "the altered copy");
  }
  return text;
}

}  // namespace bitrift::campaign
