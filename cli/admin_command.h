#pragma once
// What do all commands have in common that ask a running callgate?

#include <chrono>
#include <cstddef>
#include <expected>
#include <string>
#include <string_view>

#include "cli/admin_client.h"
#include "cli/command.h"

namespace cli {

/// What was answered, and by whom; the status may be any.
struct AdminReply {
  std::string address{};
  AdminAnswer answer{};
};

/// Asks the callgate that --admin names, else listen.admin of the configuration (--config, --set), with its
/// listen.admin_token. The error is the exit code; why stands on terminal.err by then, as said by
/// "callgate COMMAND".
[[nodiscard]] std::expected<AdminReply, int> ask_running(std::string_view command, std::string_view method,
                                                         std::string_view path, const Arguments& arguments,
                                                         Terminal& terminal, std::size_t largest = kLargestAnswer);

/// What is answered is not what a callgate would say: says so; the exit code.
int no_callgate(std::string_view command, const AdminReply& reply, Terminal& terminal);
/// It answers, but not what was asked for: says its `detail`; the exit code.
int refused_by(std::string_view command, const AdminReply& reply, std::string_view detail, Terminal& terminal);

}  // namespace cli
