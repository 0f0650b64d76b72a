#pragma once
// May this job be in the store? Of one that certainly is not, the answer to its claim is known without asking.
//
// A Bloom filter (Bloom 1970) that grows as the scalable one does (Almeida et al. 2007,
// doi:10.1016/j.ipl.2006.10.007): generations of 10 bits a scope and 4 probes, so that a full one takes 1.2 % of what
// it has never seen for known. A scope is a SHA-256, so its words are the probes. What is full is followed by one of
// twice the size; what holds nothing any more that could be in the store goes.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "ledger/records.h"

namespace gateway {

/// I/O thread only. Times are the wall's, as those in the store are.
class KnownScopes {
 public:
  using Time = std::chrono::system_clock::time_point;

  static constexpr std::size_t kBitsEach = 10;
  /// Of generations, in bytes; powers of two.
  struct Sizes {
    std::size_t first = std::size_t{64} << 10U;
    std::size_t largest = std::size_t{4} << 20U;
    /// Of all together. When there is no room for another, the last one takes more than it should, and says "may be"
    /// more often.
    std::size_t all = std::size_t{32} << 20U;
  };
  KnownScopes() : KnownScopes(Sizes{}) {}
  explicit KnownScopes(const Sizes& sizes);

  /// It may be in the store until then. Whoever is there for longer is added again.
  void add(const ledger::Digest& scope, Time until, Time now);
  /// What was in the store at the start has been added.
  void complete() { complete_ = true; }
  [[nodiscard]] bool is_complete() const { return complete_; }
  /// No: it may have been seen, or not all is known yet.
  [[nodiscard]] bool certainly_new(const ledger::Digest& scope) const;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t generations() const { return generations_.size(); }

 private:
  struct Generation {
    explicit Generation(std::size_t bytes) : words(bytes / sizeof(std::uint64_t)) {}
    [[nodiscard]] std::size_t bytes() const { return words.size() * sizeof(std::uint64_t); }
    [[nodiscard]] std::size_t room() const { return bytes() * 8 / kBitsEach; }
    [[nodiscard]] bool has(const ledger::Digest& scope) const;
    void add(const ledger::Digest& scope);

    std::vector<std::uint64_t> words;
    std::size_t scopes = 0;
    Time until = Time::min();  // Of the scope that stays longest.
  };
  void drop_old(Time now);
  Generation& to_fill();

  const Sizes sizes_;
  std::deque<Generation> generations_{};  // The last one is filled.
  std::size_t bytes_ = 0;
  bool complete_ = false;
};

}  // namespace gateway
