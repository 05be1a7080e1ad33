// What the tests of this room share: a folder of their own, rows and a small base checkpoint.
#pragma once

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "ckpt/reader.h"
#include "core/file.h"
#include "design/campaign_spec.h"
#include "design/kind/bit_strata.h"
#include "record/trial.h"
#include "sink/format/writer.h"
#include "unit/places.h"

namespace bitrift::campaign::testing {

/// A folder that is gone after the test.
class TemporaryFolder : public bitrift::TemporaryFolder {
 public:
  TemporaryFolder() : bitrift::TemporaryFolder("bitrift-campaign") {}
  [[nodiscard]] std::filesystem::path operator/(const std::string& name) const { return path() / name; }
};

inline record::RunResult result(const std::string& id, double test_loss = 0.5) {
  record::RunResult result;
  result.id = id;
  result.replicas = {{{11, 20, 0.25, 0.9, test_loss, 0.95, {}}}};
  result.steps = 20;
  result.final_digest = "d";
  result.replica_digests = {"d"};
  result.last_loss = "0x1p-2";
  return result;
}

inline record::TrialRecord row(const std::string& arm, const std::string& stratum, std::uint64_t draw,
                               record::TrialKind kind = record::TrialKind::trial) {
  record::TrialRecord row;
  row.kind = kind;
  row.id = {arm, stratum, draw};
  row.landed = true;
  row.result = result(row.id.text());
  return row;
}

/// Layers conv1, fc2 and fc10 with weights, biases and momentum; every value is 0.5.
inline void write_base(const std::filesystem::path& path) {
  const std::map<std::string, std::vector<std::uint64_t>> shapes = {
      {"conv1.weight", {2, 1, 3, 3}}, {"conv1.bias", {2}}, {"fc2.weight", {3, 4}}, {"fc2.bias", {3}},
      {"fc10.weight", {4, 3}},        {"fc10.bias", {4}}};
  std::vector<ckpt::TensorMeta> metas;
  for (const auto& [key, shape] : shapes) {
    metas.push_back({"model/" + key, *number_format("float32"), shape});
    metas.push_back({"optimizer/momentum_buffer/" + key, *number_format("float32"), shape});
  }
  ckpt::Writer writer(path, metas, {});
  for (const ckpt::TensorMeta& meta : metas) {
    const std::vector<float> values(meta.elements(), 0.5F);
    writer.tensor(meta.path, values.data(), meta.bytes());
  }
  writer.commit();
}

inline design::CampaignSpec small_spec() {
  design::CampaignSpec spec;
  spec.name = "small";
  spec.seed = 42;
  spec.arms = {{"serial", {}}, {"data-2", {record::ParallelKind::data, 2, 1}}};
  spec.strata.edit<design::BitStrata>().roles = {"weight", "momentum"};
  spec.strata.edit<design::BitStrata>().fields = {"sign", "exponent"};
  spec.trials_per_stratum = 9;
  spec.envelope_runs = 20;
  spec.held_out_runs = 4;
  spec.jitter_runs = 4;
  return spec;
}

/// A rank of Python that speaks the worker protocol.
inline const std::filesystem::path fake_rank =
    std::filesystem::path(bitrift::testing::source_dir) / "tests/unit/campaign/fake_rank.py";

/// What is told of a rank that died by a signal (0: of unknown number).
inline record::Failure signal_of(int number) {
  return {record::FailureReason::signal, number == 0 ? "" : strsignal(number), number};
}

}  // namespace bitrift::campaign::testing
