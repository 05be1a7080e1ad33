#include "integrity/verification_json.h"

#include <utility>

namespace bitrift::integrity {
namespace {

record::Json part_json(const SummedPart& part) {
  record::Json value = {{"part", part.name}, {"sum", name_of(part.kind)}};
  value["state"] = part.damage.empty() ? "sound" : "damaged";
  if (!part.damage.empty()) value["damage"] = part.damage;
  return value;
}

record::Json seal_json(const SealCheck& seal) {
  record::Json value = {{"file", seal.file.string()}, {"sound", seal.sound()}};
  if (!seal.unusable.empty()) {
    value["unusable"] = seal.unusable;
    return value;
  }
  value["blocks"] = seal.head.shape.blocks();
  value["block_bytes"] = seal_block_bytes;
  value["data_rows"] = seal.head.shape.data_rows;
  value["parity_rows"] = seal.head.shape.parity_rows;
  value["seal_damaged"] = seal.seal_damaged;
  value["damaged_blocks"] = seal.damaged.size();
  value["flipped_blocks"] = seal.flipped.size();
  value["lost_blocks"] = seal.lost;
  value["repairable"] = seal.repairable();
  value["damaged"] = record::Json::array();
  for (const DamagedRange& range : damaged_ranges(seal))
    value["damaged"].push_back({{"file", range.file}, {"first", range.first}, {"bytes", range.bytes}});
  value["resized"] = record::Json::array();
  for (const ResizedFile& one : seal.resized) {
    value["resized"].push_back({{"file", one.name}, {"sealed_bytes", one.sealed_bytes}});
    value["resized"].back()["bytes"] = one.bytes ? record::Json(*one.bytes) : record::Json();
  }
  return value;
}

record::Json tensor_json(const VerifiedTensor& tensor) {
  record::Json sums = record::Json::array();
  for (const SumKind kind : tensor.sums) sums.push_back(name_of(kind));
  record::Json value = {{"path", tensor.path},
                        {"role", tensor.role},
                        {"bytes", tensor.bytes},
                        {"state", name_of(tensor.state)},
                        {"sums", std::move(sums)}};
  if (!tensor.reason.empty()) value["reason"] = tensor.reason;
  return value;
}

}  // namespace

record::Json to_json(const Verification& found) {
  record::Json parts = record::Json::array();
  for (const SummedPart& part : found.parts) parts.push_back(part_json(part));
  record::Json tensors = record::Json::array();
  for (const VerifiedTensor& tensor : found.tensors) tensors.push_back(tensor_json(tensor));
  record::Json value = {{"format", nullptr},
                        {"bytes", found.bytes},
                        {"sound", found.sound()},
                        {"parts", std::move(parts)},
                        {"tensors", std::move(tensors)}};
  if (found.format) value["format"] = name_of(*found.format);
  if (!found.damage.empty()) value["damage"] = found.damage;
  if (!found.other.empty()) value["other"] = found.other;
  if (found.seal) value["seal"] = seal_json(*found.seal);
  return value;
}

}  // namespace bitrift::integrity
