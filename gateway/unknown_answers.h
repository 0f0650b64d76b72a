#pragma once
// Which answers of providers did no rule know? Counted by fingerprint, each with a case line that can be reported.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/fingerprint.h"
#include "classifier/headers.h"
#include "classifier/verdict.h"
#include "gateway/services.h"

namespace gateway {

/// One of them, as it was seen now. All views are read at once.
struct SeenUnknown {
  std::string_view upstream{};
  std::string_view dialect{};
  int status = 0;
  std::string_view call_id{};
  const classifier::Fingerprint& fingerprint;
  const classifier::Verdict& verdict;
};

/// All of one fingerprint at one upstream. Nothing of a request is in it, and of an answer what its fingerprint has.
struct UnknownAnswer {
  std::string fingerprint{};
  std::string upstream{};
  std::string dialect{};
  int status = 0;
  classifier::Class cls = classifier::Class::Unknown;  // This and the next two: of the last one.
  bool retryable = false;
  std::string rule{};   // What spoke in place of a rule: "unknown 4xx".
  std::string words{};  // Codes and types, masked.
  std::string text{};   // The message, masked.
  std::uint64_t count = 0;
  WallTime first_seen{};
  WallTime last_seen{};
  std::string last_call_id{};
  std::string case_line{};  // Of the last one.
};

/// I/O thread only. At most kMost entries of about 8 KiB; of more the one that was not seen for longest goes.
class UnknownAnswers {
 public:
  static constexpr std::size_t kMost = 200;

  struct List {
    std::vector<UnknownAnswer> answers{};  // Last seen first.
    std::uint64_t dropped = 0;             // Entries that have gone to make room.
  };

  void note(const SeenUnknown& seen, WallTime now);
  [[nodiscard]] const List& list() const { return list_; }

 private:
  List list_{};
};

/// What a caller's request has told that no answer may bring to where others see it: the values of its headers, save
/// those that say nothing of it, and of its query.
[[nodiscard]] std::vector<std::string> callers_secrets(const classifier::Headers& headers, std::string_view target);
/// They, and what shows them in base64.
[[nodiscard]] std::vector<std::string> also_in_base64(std::vector<std::string> secrets);

}  // namespace gateway
