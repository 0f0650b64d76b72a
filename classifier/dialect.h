#pragma once
// What must be known of a provider's language: its paths, its errors, where usage stands, how its streams run.
// One constant object per dialect (dialects/*.cpp); all is pure: bytes and codes in, our words out.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "classifier/headers.h"
#include "classifier/usage.h"
#include "classifier/verdict.h"

namespace classifier {

enum class Operation : std::uint8_t {
  Chat,
  Completions,
  Responses,
  Messages,
  GenerateContent,
  Embeddings,
  CountTokens,
  Moderation,
  Other
};
[[nodiscard]] std::string_view name_of(Operation operation);  // "chat", "responses", … as metric label.

struct Family;     // reading.h
struct ExtraRule;  // rules.h

/// What a method and path below an upstream mean to its dialect.
struct Endpoint {
  Operation operation = Operation::Other;
  /// May be repeated although its body went out (generation, embeddings, counting, moderation, GET, HEAD).
  bool replay_safe = false;
  /// Its answers are read (verdict, usage, stream events), so it is asked for without content-encoding.
  /// Others pass through as they are, and are judged by status and, on errors, by their body.
  bool understood = false;
  /// How its answers are read; the dialect's own affair.
  const Family* family = nullptr;
};

/// A path of a provider's API, however its version was written. Views into the path that was read.
struct ApiPath {
  enum class Known : std::uint8_t {
    No,
    Beside,    // Below one of its resources: "/v1/files/…", "/v1/models".
    Borrowed,  // An endpoint of another's API that it serves, too.
    Own,       // An endpoint of its own.
  };
  Known known = Known::No;
  std::string_view version{};  // The innermost that is written there; empty if none is.
  std::string_view home{};     // The one that belongs there if none is; empty if none does.
  std::string_view rest{};     // Behind the versions, without a slash at its front.
};

/// In which header a provider's key travels, and what stands before it there.
struct KeyHeader {
  std::string_view name{};    // "authorization", "x-api-key"; in lower case.
  std::string_view scheme{};  // "Bearer " or nothing.
};

/// Request bodies are read where they lie, some bytes at a time: so many bytes behind their end must be readable
/// (a std::string with that much spare capacity). What stands there does not matter.
inline constexpr std::size_t kBodyPadding = 64;

/// What a request asks for, read without building a DOM of the prompt.
struct RequestFacts {
  std::string model{};  // At most 128 bytes; empty if none is named.
  bool stream = false;
  std::optional<std::int64_t> max_output_tokens{};
  std::string region{};      // Where it is to be made, if prices differ by that ("regional"); else empty.
  std::int64_t choices = 1;  // `n`: so many answers to one request, side by side in one stream.
  /// The caller asked for usage in the stream, or the dialect sends it anyway.
  bool usage_asked = true;
  /// The body could not be read as the dialect's JSON; it is passed on as it is, the provider will say so.
  bool unreadable = false;
};

/// One replacement in a body; all other bytes stay. `length` bytes at `offset` give way to `text`.
struct Edit {
  std::size_t offset = 0;
  std::size_t length = 0;
  std::string text{};
};
/// With those edits made, in order of their offsets and apart from each other; kBodyPadding bytes of room behind it.
[[nodiscard]] std::string edited(std::string_view body, std::span<const Edit> edits);

/// The same request for a model of another name.
struct Renamed {
  std::string path{};        // Whole; as it was where it does not name the model.
  std::vector<Edit> body{};  // For edited(); none where the body does not name it, or is broken.
};

/// An error that callgate itself makes, to be said in the dialect's own form.
struct OwnError {
  int status = 500;
  Class cls = Class::Internal;
  std::string message{};
  std::string code{};     // Our code, such as "callgate_queue_full".
  std::string call_id{};  // Where the dialect has a place for a request id.
};

/// An answer to judge: whole (unary), or what came of it. Header values and body are the provider's.
struct ProviderAnswer {
  int status = 0;                        // 0: no response came; `transport` says why.
  const Headers* headers = nullptr;      // Never null for a status.
  std::string_view body{};               // Raw bytes; content-encoding gzip and deflate are understood.
  std::optional<Transport> transport{};  // With a status: it failed after the response began.
  bool truncated = false;                // `body` is only the beginning (it was longer than what is kept).
  /// What a date in a hint is measured against if the answer has no Date header.
  std::optional<std::chrono::system_clock::time_point> now{};
  /// The upstream's own rules, tried first.
  std::span<const ExtraRule> rules{};
  /// Usage is looked for also where nothing else of the body matters.
  bool usage_wanted = true;
};

/// What came of a whole answer.
struct Judged {
  Verdict verdict{};
  Usage usage{};
};

/// Reads a stream as its bytes come: which of them may go on now, whether content has begun, how it ended.
/// Whole events go to forward(); the terminal event and what follows it to tail(), since the ledger must hear
/// of the end before the caller does. At any split of the bytes the result is the same.
class StreamReader {
 public:
  virtual ~StreamReader() = default;

  virtual void feed(std::string_view bytes) = 0;
  /// The stream has ended; `transport` if it was cut. An unfinished last event goes to forward()/tail() as it is,
  /// unless it was cut: then it is dropped.
  /// Gives the verdict on the whole: None if a terminal marker or a finish reason was seen and no error (or a
  /// refusal, see Verdict::is_answer).
  virtual Verdict finish(std::optional<Transport> transport) = 0;

  /// Bytes that may go to the caller; the reader appends, the owner takes (and clears).
  std::string& forward() { return forward_; }
  std::string& tail() { return tail_; }

  [[nodiscard]] bool content() const { return content_; }  // An event with text, reasoning, tool or audio came.
  /// The dialect's end marker came, or an event that tells of a failure: what callers take for the end.
  [[nodiscard]] bool terminal() const { return terminal_; }
  /// After the terminal marker nothing more can matter: do not wait for the end of the transfer. Never with an
  /// error, whose verdict finish() gives.
  [[nodiscard]] bool complete() const { return complete_; }
  /// An event came that tells of a failure and not of its cause, for which a moment's wait is due: error() comes with
  /// the event that names it, else with the end.
  [[nodiscard]] bool failing() const { return failing_; }
  /// An error event came; the verdict as if it had come alone.
  [[nodiscard]] const std::optional<Verdict>& error() const { return error_; }
  /// What of that event the verdict was read from.
  [[nodiscard]] const std::string& error_said() const { return error_said_; }
  /// That error as the body of a real HTTP answer: the provider's own error object, whole JSON.
  [[nodiscard]] const std::string& error_body() const { return error_body_; }
  [[nodiscard]] int error_status() const { return error_status_; }  // Status for that answer, in the dialect's way.
  /// No event is half-way: a heartbeat may go out here. After finish(): the stream did not end inside an event.
  [[nodiscard]] virtual bool between_events() const = 0;
  /// Events seen so far, comments and heartbeats not counted: what an idle limit looks at.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  [[nodiscard]] const Usage& usage() const { return usage_; }
  /// Bytes kept inside: unfinished event, forward() and tail().
  [[nodiscard]] virtual std::size_t held_bytes() const = 0;

 protected:
  std::string forward_{};
  std::string tail_{};
  bool content_ = false;
  bool terminal_ = false;
  bool complete_ = false;
  bool failing_ = false;
  std::optional<Verdict> error_{};
  std::string error_said_{};
  std::string error_body_{};
  int error_status_ = 0;
  std::uint64_t events_ = 0;
  Usage usage_{};
};

class Dialect {
 public:
  virtual ~Dialect() = default;

  [[nodiscard]] virtual std::string_view name() const = 0;
  /// `path` is what follows the upstream's name, without query: "/v1/chat/completions".
  [[nodiscard]] virtual Endpoint endpoint(std::string_view method, std::string_view path) const = 0;
  /// SDKs have the version in their base URL or in their paths, and workers get it twice or not at all.
  [[nodiscard]] virtual ApiPath read_path(std::string_view path) const = 0;
  [[nodiscard]] virtual KeyHeader key_header() const = 0;
  /// `body` must be followed by kBodyPadding readable bytes. Of a member that stands twice the last one counts.
  [[nodiscard]] virtual RequestFacts read_request(const Endpoint& endpoint, std::string_view path,
                                                  std::string_view query, std::string_view body) const = 0;
  /// What to change in the body (padded as above) so that a stream reports usage; nothing if it does anyway or
  /// cannot.
  [[nodiscard]] virtual std::optional<Edit> ask_for_usage(const Endpoint& endpoint, std::string_view body) const = 0;
  /// The request for `model` in place of the one that RequestFacts::model tells of: in the path or in the body,
  /// wherever this dialect names it. `path` without query, `body` padded as above; both may be of any request.
  /// Nothing if there is nothing to change: no model is named (batches, files), only in a form (multipart, as
  /// transcriptions are asked for), in a body that is broken, or it has that name.
  [[nodiscard]] virtual std::optional<Renamed> with_model(std::string_view path, std::string_view body,
                                                          std::string_view model) const = 0;

  /// Verdict and usage, in one pass over the body.
  [[nodiscard]] virtual Judged read(const Endpoint& endpoint, const ProviderAnswer& answer) const = 0;
  [[nodiscard]] Verdict judge(const Endpoint& endpoint, ProviderAnswer answer) const {
    answer.usage_wanted = false;
    return read(endpoint, answer).verdict;
  }
  /// Does this head begin a stream that StreamReader understands?
  [[nodiscard]] virtual bool is_stream(const Endpoint& endpoint, const RequestFacts& facts,
                                       const Headers& head) const = 0;
  /// `hide_usage`: the usage chunk was asked for by us alone; it is read and left out. `rules`: the upstream's own,
  /// which outlive the reader.
  [[nodiscard]] virtual std::unique_ptr<StreamReader> stream_reader(const Endpoint& endpoint,
                                                                    const RequestFacts& facts, const Headers& head,
                                                                    bool hide_usage,
                                                                    std::span<const ExtraRule> rules = {}) const = 0;

  /// Our own error as this dialect's JSON body.
  [[nodiscard]] virtual std::string error_body(const OwnError& error) const = 0;
  /// What must stand in the head beside it for its SDKs to know what it is (AWS: x-amzn-errortype).
  [[nodiscard]] virtual Headers error_headers(const OwnError& error) const = 0;
  /// Our own error as an event inside a committed stream, with which it then ends visibly; empty where the
  /// dialect's clients only understand a cut (facts: Mistral, Cohere).
  [[nodiscard]] virtual std::string error_event(const Endpoint& endpoint, const OwnError& error) const = 0;
  /// What may be sent between events in a long silence; empty where a client would break.
  [[nodiscard]] virtual std::string_view heartbeat(const Endpoint& endpoint) const = 0;
  /// The status with which this provider would say that class (overloaded: 503, at Anthropic 529).
  [[nodiscard]] virtual int status_of(Class cls) const = 0;
  /// The header that carries this provider's request id ("x-request-id", "request-id"); set on own errors too.
  [[nodiscard]] virtual std::string_view request_id_header() const = 0;
};

/// All dialects that this version speaks, in the order in which `callgate dialects` lists them.
[[nodiscard]] std::span<const Dialect* const> dialects();
/// By name, or null.
[[nodiscard]] const Dialect* find_dialect(std::string_view name);

}  // namespace classifier
