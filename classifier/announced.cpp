#include "classifier/announced.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string_view>

#include "classifier/json.h"

namespace classifier {

namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Unit = AnnouncedLimit::Unit;

/// Whole numbers, and no minus: Azure says -1 for what it does not know.
std::optional<std::int64_t> count_in(std::string_view text) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  text = trimmed(text);
  if (text.empty()) return std::nullopt;
  std::int64_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9' || number > (kMax - 9) / 10) return std::nullopt;
    number = number * 10 + (c - '0');
  }
  return number;
}

/// Beyond a window of ten years nobody counts.
std::optional<seconds> window_in(std::string_view text) {
  const auto wait = parse_seconds(text);
  if (!wait || *wait < seconds{1} || *wait % seconds{1} != milliseconds::zero()) return std::nullopt;
  return std::chrono::duration_cast<seconds>(*wait);
}

/// Durations, seconds, dates and epochs cannot be taken for one another, so it does not matter who says them.
std::optional<milliseconds> reset_in(std::string_view text, WallClock now) {
  if (const auto wait = parse_go_duration(text)) return wait;
  auto when = parse_epoch(text);
  if (!when) when = parse_rfc3339(text);
  if (!when) return parse_seconds(text);
  // What has passed says nothing of the next time.
  return *when > now ? until(when, now) : std::nullopt;
}

bool starts_with(std::string_view text, std::string_view front) {
  return text.size() >= front.size() && same_name(text.substr(0, front.size()), front);
}

bool take(std::string_view& text, std::string_view front) {
  if (!starts_with(text, front)) return false;
  text.remove_prefix(front.size());
  return true;
}

// ---- What a header's name says --------------------------------------------------------------------------------

enum class Part : std::uint8_t { Limit, Remaining, Reset, Window };

struct PartName {
  std::string_view name;
  Part part;
};
constexpr PartName kParts[] = {{"limit", Part::Limit},
                               {"remaining", Part::Remaining},
                               {"reset", Part::Reset},
                               {"renewalperiod", Part::Window}};  // Azure's.

/// Longer names first where one begins with the other.
struct UnitName {
  std::string_view name;
  Unit unit;
};
constexpr UnitName kUnits[] = {{"requests", Unit::Requests},
                               {"req", Unit::Requests},
                               {"tokens-prompt", Unit::InputTokens},
                               {"tokens-generated", Unit::OutputTokens},
                               {"tokens", Unit::Tokens},
                               {"input-tokens", Unit::InputTokens},
                               {"output-tokens", Unit::OutputTokens}};

struct Period {
  std::string_view name;
  seconds length;
};
constexpr Period kPeriods[] = {{"second", seconds{1}},
                               {"minute", std::chrono::minutes{1}},
                               {"hour", std::chrono::hours{1}},
                               {"day", std::chrono::hours{24}},
                               {"month", std::chrono::hours{24 * 30}}};

/// Which of a head's limits a header belongs to, and what it says of it.
struct Place {
  std::string_view family{};     // By whose habit it is spelled: two habits in one head are two limits.
  std::string_view dimension{};  // "tokens-minute", in the header's own spelling.
  Part part = Part::Limit;
  Unit unit = Unit::Requests;
  std::optional<seconds> window{};
};

/// "tokens", "req-10-second". False for what we do not count: images, "tokens-cache-adjusted-prompt".
bool read_dimension(std::string_view text, Place& place) {
  place.dimension = text;
  const auto* const unit =
      std::ranges::find_if(kUnits, [&](const UnitName& row) { return starts_with(text, row.name); });
  if (unit == std::end(kUnits)) return false;
  place.unit = unit->unit;
  text.remove_prefix(unit->name.size());
  if (text.empty()) return true;
  if (!take(text, "-")) return false;
  std::int64_t times = 1;
  if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
    times = count_in(text.substr(0, dash)).value_or(0);
    text.remove_prefix(dash + 1);
  }
  constexpr std::int64_t kTimesMax = 1'000;
  const auto* const period =
      std::ranges::find_if(kPeriods, [&](const Period& row) { return same_name(text, row.name); });
  if (period == std::end(kPeriods) || times < 1 || times > kTimesMax) return false;
  place.window = period->length * times;
  return true;
}

/// "limit-requests" behind "x-ratelimit-", or "limit" alone.
std::optional<Place> part_first(std::string_view family, std::string_view name, Unit usual) {
  for (const PartName& row : kParts) {
    std::string_view rest = name;
    if (!take(rest, row.name)) continue;
    Place place{.family = family, .part = row.part, .unit = usual};
    if (rest.empty()) return place;
    if (take(rest, "-") && read_dimension(rest, place)) return place;
  }
  return std::nullopt;
}

/// "input-tokens-remaining" behind "anthropic-ratelimit-".
std::optional<Place> part_last(std::string_view family, std::string_view name) {
  const std::size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return std::nullopt;
  for (const PartName& row : kParts) {
    if (!same_name(name.substr(dash + 1), row.name)) continue;
    Place place{.family = family, .part = row.part};
    if (read_dimension(name.substr(0, dash), place)) return place;
  }
  return std::nullopt;
}

/// Nothing for nearly every header that there is, so the first letter is looked at before all else.
std::optional<Place> place_of(std::string_view name) {
  constexpr std::string_view kOpenAi = "x-ratelimit-";
  constexpr std::string_view kAnthropic = "anthropic-ratelimit-";
  constexpr std::string_view kTogether = "x-tokenlimit-";
  constexpr std::string_view kOldDraft = "ratelimit-";
  constexpr std::string_view kOldMistral = "ratelimitbysize-";
  const char first = name.empty() ? '\0' : lower(name[0]);
  if (first == 'x') {
    if (take(name, kOpenAi)) return part_first(kOpenAi, name, Unit::Requests);
    if (take(name, kTogether)) return part_first(kTogether, name, Unit::Tokens);
  } else if (first == 'a') {
    if (take(name, kAnthropic)) return part_last(kAnthropic, name);
  } else if (first == 'r') {
    if (take(name, kOldDraft)) return part_first(kOldDraft, name, Unit::Requests);
    if (take(name, kOldMistral)) return part_first(kOldMistral, name, Unit::Tokens);
  }
  return std::nullopt;
}

// ---- The IETF's two fields ------------------------------------------------------------------------------------

/// Structured fields (RFC 9651) as far as a list of strings with parameters needs them.
struct Fields {
  std::string_view left;
  bool ok = true;

  void blanks() { left.remove_prefix(std::min(left.find_first_not_of(" \t"), left.size())); }
  /// A string, token, number or byte sequence, without its quotes. Escapes stay as they are.
  std::string_view bare() {
    const char mark = left.empty() ? '\0' : left[0];
    std::size_t end = 0;
    if (mark == '"' || mark == ':') {
      end = 1;
      while (end < left.size() && left[end] != mark) end += left[end] == '\\' ? 2 : 1;
      ok = ok && end < left.size();
      const std::string_view inside = ok ? left.substr(1, end - 1) : std::string_view{};
      left.remove_prefix(std::min(end + 1, left.size()));
      return inside;
    }
    end = std::min(left.find_first_of("=;, \t"), left.size());
    const std::string_view word = left.substr(0, end);
    left.remove_prefix(end);
    ok = ok && !word.empty();
    return word;
  }
  /// Calls `item(name)`, then `parameter(key, value)` for each of its own. Stops where it is no such list.
  template <class Item, class Parameter>
  void each(Item&& item, Parameter&& parameter) {
    for (blanks(); ok && !left.empty(); blanks()) {
      // A name is no number: "1,000" is not two of them.
      ok = left[0] == '"' || (lower(left[0]) >= 'a' && lower(left[0]) <= 'z');
      const std::string_view name = ok ? bare() : std::string_view{};
      if (!ok) return;
      item(name);
      while (ok && take(left, ";")) {
        blanks();
        const std::string_view key = bare();
        const std::string_view value = take(left, "=") ? bare() : std::string_view{};
        if (ok) parameter(key, value);
      }
      blanks();
      if (left.empty()) return;
      if (!take(left, ",")) ok = false;
    }
  }
};

/// One that is broken anywhere says nothing at all (RFC 9651 §4.2).
bool is_list(std::string_view value) {
  Fields fields{value};
  fields.each([](std::string_view) {}, [](std::string_view, std::string_view) {});
  return fields.ok;
}

/// Nothing for what is no count of calls or tokens: bytes, and calls at the same time.
std::optional<Unit> unit_of(std::string_view name) {
  if (name == "requests") return Unit::Requests;
  if (name == "tokens") return Unit::Tokens;
  if (name == "input-tokens") return Unit::InputTokens;
  if (name == "output-tokens") return Unit::OutputTokens;
  return std::nullopt;
}

// ---- All together ---------------------------------------------------------------------------------------------

/// What was heard of one limit so far.
struct Heard {
  Place place{};
  AnnouncedLimit limit{};
  bool counted = true;     // In a unit that is ours.
  bool forbidden = false;  // A limit of zero was named.
};

class Gathering {
 public:
  explicit Gathering(WallClock now) : now_(now) {}

  void hear(const Place& place, std::string_view value) {
    Heard* const heard = at(place);
    if (heard == nullptr) return;
    AnnouncedLimit& limit = heard->limit;
    if (place.part == Part::Limit) hear_limit(*heard, count_in(value));
    if (place.part == Part::Remaining && !limit.remaining) limit.remaining = count_in(value);
    if (place.part == Part::Reset && !limit.resets_in) limit.resets_in = reset_in(value, now_);
    if (place.part == Part::Window && !limit.window) limit.window = window_in(value);
  }

  /// RateLimit-Policy: "burst";q=100;w=60
  void hear_policies(std::string_view value) {
    if (!is_list(value)) return;
    Heard* heard = nullptr;
    Fields{value}.each([&](std::string_view name) { heard = at_policy(name); },
                       [&](std::string_view key, std::string_view text) {
                         if (heard == nullptr) return;
                         if (key == "q") hear_limit(*heard, count_in(text));
                         if (key == "w" && !heard->limit.window) heard->limit.window = window_in(text);
                         if (key != "qu") return;
                         const auto unit = unit_of(text);
                         heard->counted = unit.has_value();
                         heard->limit.unit = unit.value_or(Unit::Requests);
                       });
  }

  /// RateLimit: "burst";r=50;t=30
  void hear_state(std::string_view value) {
    if (!is_list(value)) return;
    Heard* heard = nullptr;
    Fields{value}.each([&](std::string_view name) { heard = at_policy(name); },
                       [&](std::string_view key, std::string_view text) {
                         if (heard == nullptr) return;
                         if (key == "r" && !heard->limit.remaining) heard->limit.remaining = count_in(text);
                         if (key == "t" && !heard->limit.resets_in && count_in(text))
                           heard->limit.resets_in = parse_seconds(text);
                       });
  }

  [[nodiscard]] std::vector<AnnouncedLimit> result() const {
    std::vector<AnnouncedLimit> out;
    for (const Heard& heard : std::span{heard_}.first(size_)) {
      const AnnouncedLimit& limit = heard.limit;
      if (!heard.counted || heard.forbidden) continue;
      if (limit.limit || limit.remaining || limit.resets_in) out.push_back(limit);
    }
    return out;
  }

 private:
  /// Zero is Azure's for what it does not know, and Mistral's for a model that is in no plan, which its refusals say
  /// better: in neither case does the rest mean anything.
  static void hear_limit(Heard& heard, std::optional<std::int64_t> count) {
    if (count == 0) {
      heard.forbidden = true;
    } else if (!heard.limit.limit) {
      heard.limit.limit = count;
    }
  }

  Heard* at_policy(std::string_view name) { return at({.family = "ratelimit", .dimension = name}); }

  Heard* at(const Place& place) {
    const auto heard = std::span{heard_}.first(size_);
    const auto known = std::ranges::find_if(heard, [&](const Heard& one) {
      return one.place.family == place.family && same_name(one.place.dimension, place.dimension);
    });
    if (known != heard.end()) return &*known;
    if (size_ == heard_.size()) return nullptr;
    Heard& fresh = heard_[size_++];
    fresh.place = place;
    fresh.limit.unit = place.unit;
    fresh.limit.window = place.window;
    return &fresh;
  }

  WallClock now_;
  std::array<Heard, kAnnouncedMax> heard_{};
  std::size_t size_ = 0;
};

/// Does a header belong to the IETF's two fields, or to any other habit?
bool concerns(std::string_view name) {
  return same_name(name, "ratelimit") || same_name(name, "ratelimit-policy") || place_of(name).has_value();
}

}  // namespace

std::vector<AnnouncedLimit> read_announced(const Headers& headers, WallClock now) {
  const auto first = std::ranges::find_if(headers, concerns, &Header::name);
  if (first == headers.end()) return {};
  if (const auto date = find(headers, "date")) now = parse_http_date(*date, now).value_or(now);
  Gathering gathering{now};
  for (const Header& header : std::span{first, headers.end()}) {
    if (same_name(header.name, "ratelimit-policy")) {
      gathering.hear_policies(header.value);
    } else if (same_name(header.name, "ratelimit")) {
      gathering.hear_state(header.value);
    } else if (const auto place = place_of(header.name)) {
      gathering.hear(*place, header.value);
    }
  }
  return gathering.result();
}

}  // namespace classifier
