// The base of the formats that are zip archives.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "archive/zip_directory.h"
#include "ckpt/container/container.h"
#include "ckpt/format/chunk_cache.h"
#include "ckpt/format/member_values.h"
#include "core/file.h"

namespace bitrift::ckpt {

/// A zip archive whose directory is sound. On the plane value, the CRC-32 of altered members is updated.
class ZipContainer : public Container {
 public:
  /// `fd` holds the caller's lock.
  ZipContainer(std::unique_ptr<const archive::BoundedFile> file, archive::ZipDirectory directory,
               FileDescriptor fd);

  [[nodiscard]] std::uint64_t bytes() const noexcept override { return file_->size(); }
  [[nodiscard]] std::map<std::string, std::string> root_texts() const override { return texts_; }
  [[nodiscard]] std::vector<ByteExtent> metadata() const override;
  [[nodiscard]] std::unique_ptr<Rewriter> rewriter() const override;
  [[nodiscard]] const archive::ZipDirectory* zip() const noexcept override { return &directory_; }

 protected:
  [[nodiscard]] const archive::BoundedFile& file() const noexcept { return *file_; }
  [[nodiscard]] const archive::ZipDirectory& directory() const noexcept { return directory_; }
  [[nodiscard]] std::shared_ptr<const Member> member_of(const archive::ZipMember& member);
  /// The first `most` bytes of a member, decoded; fewer where it has fewer. Throws Error(bad_file).
  [[nodiscard]] std::vector<std::uint8_t> beginning(const archive::ZipMember& member,
                                                    std::uint64_t most) const;
  /// Bytes [first, end) of the file are values. The other bytes of the same member are `rest` in the map.
  void note_values(std::uint64_t first, std::uint64_t end) { values_.emplace_back(first, end); }
  /// A text of the file as a whole.
  void keep_text(const std::string& name, std::string text) { texts_[name] = std::move(text); }
  void name_rest(const archive::ZipMember& member, std::string rest) {
    rests_.emplace(member.data, std::move(rest));
  }

 private:
  using Runs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  void add_member(const archive::ZipMember& member, const Runs& values,
                  std::vector<ByteExtent>& extents) const;

  std::unique_ptr<const archive::BoundedFile> file_;
  archive::ZipDirectory directory_;
  FileDescriptor fd_;
  std::mutex lock_;
  ChunkCache kept_;
  Runs values_;
  std::map<std::string, std::string> texts_;
  std::map<std::uint64_t, std::string> rests_;  // by the place of the member's data
};

}  // namespace bitrift::ckpt
