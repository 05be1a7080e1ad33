// The contents of a campaign's strata, tensor by tensor, as its base checkpoints say.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace bitrift::analyze {

/// The bits, or numbers, of one tensor that belong to one stratum.
struct TensorBits {
  std::string tensor;
  std::string layer;           ///< "" when it belongs to none; that of a slot is the layer of its parameter
  std::uint64_t elements = 0;  ///< of numbers that steps compute: those of all steps, replicas and passes
  std::vector<unsigned> bits;  ///< of each element, ascending, 0 is the least significant; empty: numbers
};

/// The contents of one base file.
struct BaseContents {
  std::vector<std::string> layers;                        ///< in network order
  std::map<std::string, std::vector<TensorBits>> strata;  ///< by name
};

/// One for each of CampaignSpec::files.
using Contents = std::vector<BaseContents>;

}  // namespace bitrift::analyze
