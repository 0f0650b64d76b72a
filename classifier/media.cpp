#include "classifier/media.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace classifier {

namespace {

constexpr std::size_t kBodyMin = std::size_t{8} << 10U;
constexpr std::size_t kRunMin = 1024;
// Inside a run: prose would be found out at its first spaces.
constexpr std::size_t kStride = 64;

enum Kind : unsigned char { None = 0, Base64 = 1, Escape = 2, Upper = 4, Lower = 8, Digit = 16 };

constexpr std::array<unsigned char, 256> kKinds = [] {
  std::array<unsigned char, 256> kinds{};
  for (unsigned c = 'A'; c <= 'Z'; ++c) kinds[c] = Base64 | Upper;
  for (unsigned c = 'a'; c <= 'z'; ++c) kinds[c] = Base64 | Lower;
  for (unsigned c = '0'; c <= '9'; ++c) kinds[c] = Base64 | Digit;
  for (const char c : {'+', '/', '-', '_', '='}) kinds[static_cast<unsigned char>(c)] = Base64;
  kinds['\\'] = Escape;
  return kinds;
}();

unsigned char kind_at(std::string_view body, std::size_t at) { return kKinds[static_cast<unsigned char>(body[at])]; }

/// PHP writes "\/" for each slash, and MIME breaks its lines: "\r\n".
bool is_escape(std::string_view body, std::size_t at) {
  if (at + 1 >= body.size() || body[at] != '\\') return false;
  const char next = body[at + 1];
  return next == '/' || next == 'n' || next == 'r';
}

bool belongs(std::string_view body, std::size_t at) {
  return (kind_at(body, at) & Base64) != 0 || is_escape(body, at);
}

/// Where the run ends that is known to reach up to `good`.
std::size_t end_of_run(std::string_view body, std::size_t good) {
  // Between two images is less than a stride may pass over, but always the end of a string.
  const std::size_t most = std::min(body.size(), body.find('"', good));
  while (good + kStride < most && kind_at(body, good + kStride) != None) good += kStride;
  while (good < most && belongs(body, good)) ++good;
  return good;
}

}  // namespace

Media media_in(std::string_view body) {
  Media media;
  if (body.size() < kBodyMin) return media;
  std::size_t done = 0;  // Runs do not reach back before it.
  // A run that is long enough lies across one of these places.
  for (std::size_t probe = kRunMin - 1; probe < body.size(); probe += kRunMin) {
    if (probe < done || !belongs(body, probe)) continue;
    std::size_t begin = probe;
    while (begin > done && belongs(body, begin - 1)) --begin;
    unsigned seen = 0;
    std::size_t end = begin;
    while (end < body.size() && end - begin < kRunMin && belongs(body, end)) seen |= kind_at(body, end++);
    constexpr unsigned kAll = Upper | Lower | Digit;
    // Data has all of them within so many characters; a row of dashes has not.
    if (end - begin < kRunMin || (seen & kAll) != kAll) {
      done = end;
      continue;
    }
    end = end_of_run(body, end - 1);
    media.bytes += end - begin;
    ++media.pieces;
    done = end;
  }
  return media;
}

}  // namespace classifier
