#include "cli/admin_command.h"

#include <ostream>

#include "cli/config.h"
#include "gateway/config_files.h"
#include "gateway/config_values.h"

namespace cli {
namespace {

constexpr std::chrono::milliseconds kPatience{10'000};

}  // namespace

std::expected<AdminReply, int> ask_running(std::string_view command, std::string_view method, std::string_view path,
                                           const Arguments& arguments, Terminal& terminal, std::size_t largest) {
  const auto say = [&]() -> std::ostream& { return terminal.err << "callgate " << command << ": "; };
  const std::string named = arguments.get("--admin");
  if (arguments.has("--admin") && !gateway::read_address(named)) {
    say() << "--admin must be an address such as 127.0.0.1:4602 or unix:/path (is " << gateway::say(named)
          << ")\nSee \"callgate " << command << " --help\".\n";
    return std::unexpected(kUsage);
  }
  std::chrono::milliseconds patience = kPatience;
  if (arguments.has("--timeout")) {
    const auto time = gateway::read_duration(arguments.get("--timeout"));
    if (!time || *time <= 0) {
      say() << "--timeout must be a duration such as 500ms, 30s or 2m (is "
            << gateway::say(arguments.get("--timeout")) << ")\nSee \"callgate " << command << " --help\".\n";
      return std::unexpected(kUsage);
    }
    patience = std::chrono::milliseconds{*time};
  }
  // What is wrong with the file is the running callgate's to say; here it only tells where that is.
  const gateway::Loaded loaded = load(arguments, terminal);
  AdminRequest request;
  request.address = arguments.get("--admin", loaded.config.listen.admin);
  request.method = method;
  request.path = path;
  request.largest = largest;
  const gateway::SecretSource& token = loaded.config.listen.admin_token;
  if (token.given()) {
    const auto secret = gateway::read_token(token, gateway::process_environment());
    if (!secret) {
      say() << "listen.admin_token " << secret.error() << '\n';
      return std::unexpected(kFailed);
    }
    request.token = *secret;
  }
  auto answer = ask_admin(request, patience);
  if (answer) return AdminReply{request.address, std::move(*answer)};
  say() << "cannot ask callgate at " << request.address << ": " << answer.error().why << '\n';
  if (!loaded.usable() && !arguments.has("--admin")) {
    terminal.err
        << "The configuration has errors, so this may be the wrong address; name the right one with --admin.\n";
    print_problems(loaded.problems, terminal.err, terminal.colour_err);
  } else if (answer.error().denied) {
    terminal.err << "Its user and the members of its group may ask it, and root: become one of them (for the Debian "
                    "package: adduser NAME callgate), then log in anew.\n";
  } else if (!answer.error().timed_out) {
    terminal.err << "Is it running, and with this configuration? --admin names another address.\n";
  }
  return std::unexpected(answer.error().denied ? kDenied : answer.error().timed_out ? kTimedOut : kUnreachable);
}

int no_callgate(std::string_view command, const AdminReply& reply, Terminal& terminal) {
  terminal.err << "callgate " << command << ": what listens at " << reply.address
               << " is no callgate\nGive the address of its admin listener with --admin.\n";
  return kUnreachable;
}

int refused_by(std::string_view command, const AdminReply& reply, std::string_view detail, Terminal& terminal) {
  terminal.err << "callgate " << command << ": callgate at " << reply.address << " answers " << reply.answer.status
               << ": " << detail << '\n';
  if (reply.answer.status == 401 || reply.answer.status == 403) return kDenied;
  return reply.answer.status == 503 ? kTimedOut : kFailed;
}

}  // namespace cli
