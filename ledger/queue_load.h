#pragma once
// Is there room in a queue for one more dead letter, should the next run become one?

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "ledger/sql.h"

namespace ledger {

/// Of queues that were asked for: counted from the file once, then kept along. Whoever changes what is counted within
/// a transaction says so here.
class QueueLoad {
 public:
  struct Load {
    std::int64_t letters = 0;  // Open ones.
    std::int64_t runs = 0;     // Not over: each may leave a letter.
  };
  explicit QueueLoad(Database& database);

  [[nodiscard]] const Load& of(const std::string& queue);
  void letters(std::string_view queue, std::int64_t change);
  void runs(std::string_view queue, std::int64_t change);
  /// What the file says counts again.
  void rolled_back() { known_.clear(); }

 private:
  Statement letters_, queued_, running_;
  std::map<std::string, Load, std::less<>> known_{};
};

}  // namespace ledger
