#pragma once
// What came of a stream of events? The one StreamReader; families tell it what an event means.

#include <memory>

#include "classifier/dialect.h"
#include "classifier/reading.h"
#include "classifier/rules.h"
#include "classifier/sse.h"

namespace classifier {

struct EventReaderOptions {
  const Family* family = nullptr;
  RuleSet rules{};
  const Headers* head = nullptr;  // Read at once, not kept.
  bool hide_usage = false;
  std::int64_t choices = 1;  // That were asked for; without an end marker fewer are no whole answer.
  Framing framing = Framing::Events;
  std::string (*error_document)(std::string_view event, const SaidError& said) = nullptr;
  const Dialect* dialect = nullptr;  // For its status_of().
};
[[nodiscard]] std::unique_ptr<StreamReader> make_event_reader(const EventReaderOptions& options);

/// Verdict on an error that the provider put into words, with its hint; `now` for dates without a Date header.
[[nodiscard]] Verdict judge_error(const RuleSet& rules, int status, const Headers* headers, std::string_view body,
                                  std::optional<std::chrono::system_clock::time_point> now);
/// An answer that says no.
[[nodiscard]] Verdict refused(Class cls);
/// What has been read, in normal form.
void settle_into(Usage& usage, const Reading& reading, Settle settle);

}  // namespace classifier
