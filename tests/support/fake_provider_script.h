#pragma once
// Which answer has been ordered for a request? Read from JSON; README.md in this folder describes it for
// people.

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/support/fake_provider_http.h"
#include "tests/support/fake_provider_transport.h"

namespace fake_provider {

// The steps of an answer, played one after the other.
struct Wait {
  milliseconds time{0};
};
/// Until somebody releases it.
struct Hold {
  std::string gate{};
};
struct Interim {
  int status = 103;
  Headers headers{};
};
struct StartHead {
  Head head{};
};
struct Data {
  std::shared_ptr<const std::string> bytes{};
};
struct Raw {
  std::shared_ptr<const std::string> bytes{};
};
struct Fill {
  std::uint64_t bytes = 0;
};
/// One delta in the dialect of the request.
struct Say {
  std::string text{};
};
/// The dialect's error within a stream.
struct Fail {
  int status = 500;
};
/// Deltas in the dialect.
struct Many {
  std::uint64_t events = 0;
  std::size_t size = 0;
  milliseconds every{0};
  std::uint64_t first = 0;  // Number of the first event, where a dialect numbers them.
};
struct End {};
struct Hang {};
struct Drop {
  How how = How::Fin;
};
using Step = std::variant<Wait, Hold, Interim, StartHead, Data, Raw, Fill, Say, Fail, Many, End, Hang, Drop>;

/// How much of the request is awaited before the answer.
enum class Read : std::uint8_t { All, Head, Nothing };

/// An answer as ordered. What is left out is filled in as a provider of the request's dialect would.
struct Order {
  std::optional<int> status{};
  std::string reason{};
  Headers headers{};
  std::optional<std::vector<Step>> body{};
  bool is_stream = false;  // Of `body`: events, each on its own.
  bool by_hand = false;    // `body` holds head and end too.
  std::vector<std::string> say{"hel", "lo"};
  std::optional<std::uint64_t> input_tokens{};
  std::optional<std::uint64_t> output_tokens{};
  std::optional<Framing> framing{};
  std::optional<std::uint64_t> content_length{};
  bool gzip = false;

  std::vector<Step> before{};  // The head.
  Read read = Read::All;
  milliseconds gap{0};  // Between the dialect's own events.
  Mischief mischief{};
  After after{};
};

struct Rule {
  std::string method{};
  std::string path{};  // Exact, or with a * at its end; compared with the query too if it has a ? in it.
  Headers headers{};
  std::string body_contains{};
  std::uint64_t nth = 0;                                // Only the nth request that fits. 0: each.
  std::uint64_t times = 0;                              // At most so often. 0: always.
  std::vector<std::shared_ptr<const Order>> answers{};  // The last one stays.
  std::vector<double> weights{};                        // Not empty: drawn instead.
  std::mt19937_64 chance{};

  std::uint64_t fitted = 0;
  std::uint64_t used = 0;
};

struct ScriptError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Script {
 public:
  Script() = default;
  /// Throws ScriptError, which names the place.
  explicit Script(std::string_view json);

  struct Choice {
    std::shared_ptr<const Order> order{};
    int rule = -1;  // -1: none fitted, the provider acts on its own.
  };
  /// The first rule that fits; counts.
  [[nodiscard]] Choice choose(const Request& request);
  /// Before the body is there: an answer that does not wait for it, if that is certain already; then it
  /// counts too.
  [[nodiscard]] std::optional<Choice> choose_early(const Request& request);
  [[nodiscard]] OnConnect on_connect() const { return on_connect_; }
  [[nodiscard]] std::size_t size() const { return rules_.size(); }

 private:
  std::vector<Rule> rules_{};
  OnConnect on_connect_ = OnConnect::Serve;
  bool any_early_ = false;
};

}  // namespace fake_provider
