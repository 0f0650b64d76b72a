#pragma once
// What tests of disks that refuse share.

#include <sys/mount.h>

#include <fstream>

#include "tests/ledger/store_support.h"

namespace store_test {

/// A file system of its own, in memory.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& options) {
    mounted_ = mount("tmpfs", folder_.path().c_str(), "tmpfs", 0, options.c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(folder_.path().c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }
  [[nodiscard]] std::string path(const std::string& name) const { return folder_.path(name); }
  [[nodiscard]] bool remount(unsigned long flags) const {
    return mount("tmpfs", folder_.path().c_str(), "tmpfs", MS_REMOUNT | flags, nullptr) == 0;
  }
  /// Until nothing more goes in.
  void fill() const {
    std::ofstream file(path("ballast"), std::ios::binary);
    const std::string block(4'096, 'x');
    while (file.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void clear() const { std::filesystem::remove(path("ballast")); }

 private:
  Folder folder_;
  bool mounted_ = false;
};

/// Endings whose callbacks are counted.
class Tally {
 public:
  Store::Done teller() {
    return [this](Written written) { ++(written == Written::Committed ? committed : lost); };
  }
  std::atomic<int> committed{0};
  std::atomic<int> lost{0};
};

}  // namespace store_test
