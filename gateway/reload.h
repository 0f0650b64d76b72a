#pragma once
// How does a running callgate get a new configuration? One thread reads and checks the file, then the I/O thread
// takes it in one step, or leaves everything as it is.

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gateway/config.h"
#include "gateway/file_watch.h"

namespace gateway {

/// Accepting: by an admin, who also accepts contracts that promise less (gateway/weaker_contracts.h).
enum class ReloadCause : std::uint8_t { Signal, FileChange, Admin, Accepting };
[[nodiscard]] std::string_view name_of(ReloadCause cause);  // "signal", "file_change", "admin" (both)

/// One key that holds otherwise than before. Empty: was not there, or is no more.
struct Change {
  std::string path{};
  std::string from{};
  std::string to{};
  bool operator==(const Change&) const = default;
};

struct ReloadReport {
  enum class Result : std::uint8_t { Applied, Unchanged, Refused } result = Result::Refused;
  std::string file{};
  std::vector<Change> changed{};
  std::vector<std::string> restart_needed{};  // Keys whose new value waits for a restart.
  std::vector<Problem> problems{};            // Refused: why. Else warnings.
};
inline constexpr std::array<std::string_view, 3> kReloadResults = {"applied", "unchanged", "refused"};
[[nodiscard]] std::string_view name_of(ReloadReport::Result result);

[[nodiscard]] std::vector<Change> changes(std::span<const Setting> before, std::span<const Setting> after);

/// What only a restart can change, of all keys there are.
inline constexpr std::array<std::string_view, 8> kRestartKeys = {"listen.data",
                                                                 "listen.health",
                                                                 "listen.admin",
                                                                 "listen.admin_token",
                                                                 "store.path",
                                                                 "store.commit",
                                                                 "store.payloads",
                                                                 "store.payload_key"};
/// Puts back into `fresh` what only a restart can change, and says which keys those are.
[[nodiscard]] std::vector<std::string> keep_until_restart(const Loaded& running, Loaded& fresh);

/// Queue contracts of `fresh` that promise less than those that run. They are problems of `fresh`: errors, or where
/// they are accepted warnings.
void refuse_weaker(const Loaded& running, Loaded& fresh, ReloadCause cause, const std::string& file);

class Reloader {
 public:
  struct Doors {
    std::function<Loaded()> read;
    /// Nothing: it could not be handed over; it is read and handed over again a second later, until it can be.
    std::function<std::optional<ReloadReport>(Loaded fresh, ReloadCause cause)> take;
  };
  /// Both doors are used on the reloader's own thread. An empty `file` is not watched. `seen`: the state that was
  /// read last; if the file is in another one by now, it is read soon.
  Reloader(const std::string& file, const FileStamp& seen, Doors doors);
  ~Reloader();  // Stops and joins; `take` must return soon then.

  /// A reload that begins from now on. However many ask meanwhile, one reload serves them all. Any thread.
  void ask(ReloadCause cause);
  /// The same, and waits for what comes of it; nothing if that takes longer.
  [[nodiscard]] std::optional<ReloadReport> ask_and_wait(ReloadCause cause, std::chrono::milliseconds patience);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gateway
