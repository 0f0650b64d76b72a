#pragma once
// What does a request head ask for, and may it be served at all? And how is an answer's head written?
//
// Pure: bytes in, words out. Strict on purpose: wherever two readers could disagree about where a request ends, or
// whom it is for, it is refused. gateway/server.cpp does the reading and writing.

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "classifier/headers.h"
#include "gateway/caller.h"
#include "gateway/server.h"

namespace gateway {

/// Watches a head come in, however it is cut, and tells where it ends. What can never become a head (bare CR or LF,
/// control characters, folded lines) is seen at its first byte, so nobody waits for the rest of it.
class HeadScan {
 public:
  enum class Seen : std::uint8_t { Incomplete, Complete, Malformed };
  /// `bytes`: all since the head's first one. Each is looked at once.
  Seen look(std::string_view bytes);
  /// Complete: bytes of the head, its empty line included.
  [[nodiscard]] std::size_t size() const { return seen_; }
  /// Malformed: what is wrong, for people.
  [[nodiscard]] std::string_view fault() const { return fault_; }

 private:
  std::size_t seen_ = 0;
  std::size_t line_ = 0;  // Where the line that is being read began.
  std::string_view fault_{};
};

struct RequestHead {
  std::string method{};
  std::string target{};           // Origin form.
  std::string authority{};        // From Host, or from a target in absolute form.
  classifier::Headers headers{};  // Without hop-by-hop fields, Host, Content-Length and Expect.
  bool http11 = true;
  bool keep_alive = true;
  bool chunked = false;
  std::uint64_t length = 0;  // Content-Length; 0 if there is none.
  bool expects_continue = false;
};

struct HostRule {
  std::span<const std::string> allowed{};
  bool any = false;  // A unix socket: no web page can reach it by a name.
};
/// `authority`: "localhost:4600", what a Host header says.
[[nodiscard]] bool allows(const HostRule& rule, std::string_view authority);

/// Reads a whole head (as HeadScan found it).
[[nodiscard]] std::expected<RequestHead, RefusedRequest> read_head(std::string_view head, const HostRule& hosts);
/// The origin form of the target in what was read so far, for a refusal; empty if none can be told.
[[nodiscard]] std::string target_in(std::string_view bytes);

/// Takes a body out of its chunks. Extensions and trailers are read and dropped.
class ChunkReader {
 public:
  enum class Got : std::uint8_t { More, End, Malformed, TooLarge };
  explicit ChunkReader(std::uint64_t body_limit);
  ~ChunkReader();
  ChunkReader(const ChunkReader&) = delete;
  ChunkReader& operator=(const ChunkReader&) = delete;

  /// Appends what `bytes` holds of the body and takes what it has used from their front; the rest must come again,
  /// with more behind it.
  Got feed(std::string& bytes, std::string& body);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// How the receiver of an answer knows its end.
enum class Framing : std::uint8_t { NoBody, Length, Chunked, UntilClose };
[[nodiscard]] Framing framing_of(bool http11, bool head_method, int status, std::optional<std::uint64_t> length);

enum class Persistence : std::uint8_t { Kept, KeptIfSaid, Closing };  // KeptIfSaid: HTTP/1.0.

/// Appends status line, fields and empty line. Left out: hop-by-hop and framing fields, Alt-Svc (nobody shall go
/// around us), and whatever would break out of its line.
void write_head(std::string& into, const AnswerHead& head, Framing framing, std::optional<std::uint64_t> length,
                Persistence persistence);
[[nodiscard]] std::string_view reason_of(int status);

}  // namespace gateway
