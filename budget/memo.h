#pragma once
// "Seen before?" for calls that finally failed a moment ago: SDKs retry whatever we say, and the provider must not
// see that (design §3; facts on SDKs that ignore x-should-retry).

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "budget/lru.h"
#include "budget/units.h"
#include "classifier/headers.h"
#include "classifier/verdict.h"

namespace budget {

/// A digest of all that makes two calls the same: scope, ids, method, path, body. Made by the caller.
using MemoKey = std::array<std::uint8_t, 32>;

struct RememberedFailure {
  int status = 0;
  classifier::Headers headers{};
  std::string body{};
  classifier::Class cls = classifier::Class::None;
  std::string upstream{};
  std::string model{};
  TimePoint first_began{};               // The failed call's first attempt.
  std::optional<TimePoint> come_back{};  // When the provider wants to see it again, if it said.
  bool operator==(const RememberedFailure&) const = default;
};

struct MemoPolicy {
  Milliseconds ttl{15'000};  // 0: nothing is remembered.
  std::size_t max_count = 10'000;
  std::size_t max_bytes = 16 * 1024 * 1024;  // An answer above a sixteenth of it is not remembered.
  bool operator==(const MemoPolicy&) const = default;
};

/// A failure is worth remembering only if that upstream and model answered nobody since its call's first attempt
/// began: where others were answered meanwhile, it was chance, and another go is as good as theirs.
/// Single-threaded. When it is full, what was remembered longest ago goes; of the last answers, those of 1 000
/// upstreams and models are known.
class Memo {
 public:
  explicit Memo(const MemoPolicy& policy = {});

  /// Nothing to find, so no need for a digest. Lets go of what is too old.
  [[nodiscard]] bool empty(TimePoint now);
  /// Null if unknown or too old. Valid until anything else is called.
  [[nodiscard]] const RememberedFailure* find(const MemoKey& key, TimePoint now);
  /// Replaces what was known under that key. False: it was chance, too large, or nothing is to be remembered.
  bool remember(const MemoKey& key, RememberedFailure failure, TimePoint now);
  /// That upstream and model work again: what they left is forgotten, at the price of what is forgotten.
  void success(std::string_view upstream, std::string_view model, TimePoint now);
  void update(const MemoPolicy& policy, TimePoint now);

  [[nodiscard]] std::size_t count() const { return by_key_.size(); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  struct Entry;
  using Entries = std::list<Entry>;
  using Leavings = std::list<Entries::iterator>;  // Of one upstream and model.
  struct Entry {
    MemoKey key;
    RememberedFailure failure;
    TimePoint at;
    std::size_t bytes;
    Leavings* leavings;
    Leavings::iterator place;
  };
  struct KeyHash {
    std::size_t operator()(const MemoKey& key) const;
  };

  void forget(Entries::iterator entry);
  void forget_old(TimePoint now);

  MemoPolicy policy_;
  std::size_t bytes_ = 0;
  Entries entries_;  // Oldest first.
  std::unordered_map<MemoKey, Entries::iterator, KeyHash> by_key_;
  std::unordered_map<std::string, Leavings> by_source_;  // Upstream, NUL, model.
  Lru<TimePoint> answered_;                              // When last; likewise.
};

}  // namespace budget
