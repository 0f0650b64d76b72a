#include "cli/ledger.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <expected>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "budget/price_book.h"
#include "cli/ask_books.h"
#include "cli/config.h"
#include "cli/plain_output.h"
#include "cli/prices.h"
#include "cli/progress.h"
#include "cli/table.h"
#include "gateway/book_answers.h"
#include "gateway/config_values.h"
#include "ledger/books.h"
#include "ledger/care.h"
#include "ledger/rerate.h"

namespace cli {
namespace {

using Json = nlohmann::ordered_json;

/// The file that --store names, else store.path of the configuration; the error is the exit code.
std::expected<std::string, int> store_of(std::string_view command, const Arguments& arguments, Terminal& terminal) {
  if (arguments.has("--store")) return arguments.get("--store");
  const gateway::Loaded loaded = load(arguments, terminal);
  if (!loaded.usable()) {
    print_problems(loaded.problems, terminal.err, terminal.colour_err);
    return std::unexpected(kInvalid);
  }
  if (loaded.config.store.path.starts_with(":memory:")) {
    terminal.err << "callgate " << command << ": store.path is " << loaded.config.store.path
                 << ", which is in no file; name one with --store\n";
    return std::unexpected(kUsage);
  }
  return loaded.config.store.path;
}

int failed(std::string_view command, const std::string& why, Terminal& terminal) {
  terminal.err << "callgate " << command << ": " << cell(why, 600) << '\n';
  return kFailed;
}

std::optional<std::int64_t> time_option(const Arguments& arguments, std::string_view name, std::int64_t otherwise) {
  if (!arguments.has(name)) return otherwise;
  return gateway::read_since(arguments.get(name), std::chrono::system_clock::now());
}

constexpr std::chrono::seconds kSayAgain{10};
constexpr std::string_view kTimes = " must be a time such as 2026-11-29, 2026-11-29T16:40Z, or 7d for that long ago";

/// A new file for one's own eyes; what is there stays.
class NewFile {
 public:
  explicit NewFile(const std::string& path)
      : fd_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {}
  ~NewFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  bool write(std::string_view text) {
    while (!text.empty()) {
      const ssize_t wrote = ::write(fd_, text.data(), text.size());
      if (wrote < 0 && errno == EINTR) continue;
      if (wrote <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(wrote));
    }
    return true;
  }

 private:
  int fd_;
};

std::string usd(std::int64_t nano) { return budget::usd_text(budget::NanoUsd{nano}); }

std::string more(std::int64_t before, std::int64_t after) {
  const std::int64_t apart = after - before;
  return (apart > 0 ? "+" : "") + usd(apart);
}

}  // namespace

int ledger_check(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "ledger check";
  if (!arguments.words.empty() && arguments.has("--store"))
    return misuse(kCommand, "the file is named twice, as an argument and by --store", terminal);
  const auto file = arguments.words.empty() ? store_of(kCommand, arguments, terminal) : arguments.words[0];
  if (!file) return file.error();
  if (::access(file->c_str(), F_OK) != 0) {
    failed(kCommand, *file + ": " + std::strerror(errno), terminal);
    return kNotFound;
  }
  const std::vector<std::string> wrong = ledger::check(*file);
  if (arguments.has("--json")) {
    terminal.out << Json{{"file", *file}, {"sound", wrong.empty()}, {"problems", wrong}}.dump(
                        2, ' ', false, Json::error_handler_t::replace)
                 << '\n';
  } else if (wrong.empty()) {
    terminal.out << cell(*file, 400) << ": sound\n";
  } else {
    for (const std::string& one : wrong) terminal.out << cell(one, 400) << '\n';
  }
  return wrong.empty() ? kDone : kInvalid;
}

int ledger_backup(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "ledger backup";
  if (arguments.words.empty()) return misuse(kCommand, "needs the file to write", terminal);
  const auto file = store_of(kCommand, arguments, terminal);
  if (!file) return file.error();
  const auto done = ledger::backup(*file, arguments.words[0]);
  if (!done) return failed(kCommand, done.error(), terminal);
  struct stat info {};
  const bool known = ::stat(arguments.words[0].c_str(), &info) == 0;
  terminal.out << cell(arguments.words[0], 400) << ": written"
               << (known ? ", " + gateway::say_size(info.st_size) : "") << '\n';
  return kDone;
}

int ledger_export(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "ledger export";
  ledger::ExportAsk ask;
  const auto since = time_option(arguments, "--since", 0);
  const auto until = time_option(arguments, "--until", INT64_MAX);
  if (!since) return misuse(kCommand, "--since" + std::string{kTimes}, terminal);
  if (!until) return misuse(kCommand, "--until" + std::string{kTimes}, terminal);
  ask.since_ms = *since;
  ask.until_ms = *until;
  ask.tenant = arguments.get("--tenant");
  const auto file = store_of(kCommand, arguments, terminal);
  if (!file) return file.error();
  const auto books = ledger::open_books(*file);
  if (!books) return failed(kCommand, books.error(), terminal);
  const std::string to = arguments.words.empty() ? "-" : arguments.words[0];
  std::optional<NewFile> out;
  if (to != "-") {
    out.emplace(to);
    if (!out->open()) return failed(kCommand, to + ": " + std::strerror(errno), terminal);
  }
  std::uint64_t calls = 0;
  Progress progress{terminal, kSayAgain};
  for (bool go_on = true; go_on;) {
    const auto page = (*books)->export_calls(ask);
    if (!page) return failed(kCommand, page.error(), terminal);
    std::string text;
    for (const std::string& line : page->lines) text += line + "\n";
    calls += page->lines.size();
    const bool written = out ? out->write(text) : static_cast<bool>(as_is(terminal.out) << text);
    if (!written) {
      progress.clear();
      return failed(kCommand, to + " could not be written; what is there is a part", terminal);
    }
    if (out && page->more) progress.show(std::to_string(calls) + " calls written");
    ask.after = page->last_id;
    go_on = page->more;
  }
  progress.clear();
  if (out) terminal.err << calls << " calls written to " << cell(to, 400) << '\n';
  return kDone;
}

int ledger_rerate(const Arguments& arguments, Terminal& terminal) {
  constexpr std::string_view kCommand = "ledger rerate";
  const auto since = time_option(arguments, "--since", 0);
  const auto until = time_option(arguments, "--until", INT64_MAX);
  if (!since) return misuse(kCommand, "--since" + std::string{kTimes}, terminal);
  if (!until) return misuse(kCommand, "--until" + std::string{kTimes}, terminal);
  const gateway::Loaded loaded = load(arguments, terminal);
  if (!loaded.usable()) {
    print_problems(loaded.problems, terminal.err, terminal.colour_err);
    return kInvalid;
  }
  const auto file = store_of(kCommand, arguments, terminal);
  if (!file) return file.error();

  ledger::RerateAsk ask;
  ask.since_ms = *since;
  ask.until_ms = *until;
  ask.apply = arguments.has("--apply");
  std::shared_ptr<const budget::PriceBook> book = loaded.config.prices.book;
  if (arguments.has("--file")) {
    auto given = price_book_of(arguments, terminal);
    if (!given) return kInvalid;
    book = std::make_shared<const budget::PriceBook>(std::move(*given));
  }
  ask.book = book.get();
  const auto pico_per_token = [](std::int64_t nano_per_million) { return budget::PicoUsd{nano_per_million / 1'000}; };
  ask.fallback = budget::flat_price(pico_per_token(loaded.config.prices.fallback_input),
                                    pico_per_token(loaded.config.prices.fallback_output));
  const auto host_of = [&](std::string_view upstream) -> std::string {
    const auto found = std::ranges::find(loaded.config.upstreams, upstream, &gateway::UpstreamConfig::name);
    if (found == loaded.config.upstreams.end()) return {};
    const auto url = gateway::read_url(found->url);
    return url ? url->host : std::string{};
  };
  ask.provider_of = [&](std::string_view upstream) {
    return std::string{budget::provider_of(host_of(upstream), upstream)};
  };
  ask.region_of = [&](std::string_view upstream) { return std::string{budget::region_of(host_of(upstream))}; };

  const auto lines = ledger::rerate(*file, ask);
  if (!lines) return failed(kCommand, lines.error(), terminal);
  ledger::RerateLine total;
  for (const ledger::RerateLine& line : *lines) {
    total.attempts += line.attempts;
    total.changed += line.changed;
    total.before_nano += line.before_nano;
    total.after_nano += line.after_nano;
  }
  if (arguments.has("--json")) {
    Json list = Json::array();
    for (const ledger::RerateLine& line : *lines) {
      list.push_back({{"upstream", line.upstream},
                      {"model", line.model},
                      {"attempts", line.attempts},
                      {"changed", line.changed},
                      {"before_usd", usd(line.before_nano)},
                      {"after_usd", usd(line.after_nano)},
                      {"unpriced_before", line.unpriced_before},
                      {"unpriced_after", line.unpriced_after}});
    }
    terminal.out << Json{{"applied", ask.apply}, {"changed", total.changed}, {"lines", std::move(list)}}.dump(
                        2, ' ', false, Json::error_handler_t::replace)
                 << '\n';
    return kDone;
  }
  std::vector<std::vector<std::string>> rows{
      {"upstream", "model", "attempts", "changed", "cost USD", "new", "difference", "without a price"}};
  for (const ledger::RerateLine& line : *lines) {
    if (line.changed == 0 && !arguments.has("--all")) continue;
    rows.push_back({cell(line.upstream),
                    cell(line.model),
                    std::to_string(line.attempts),
                    std::to_string(line.changed),
                    usd(line.before_nano),
                    usd(line.after_nano),
                    more(line.before_nano, line.after_nano),
                    std::to_string(line.unpriced_before) + " -> " + std::to_string(line.unpriced_after)});
  }
  if (rows.size() > 1) print_list(rows, arguments, terminal);
  terminal.err << total.changed << " of " << total.attempts << " attempts "
               << (ask.apply ? "changed" : "would change") << ", in all " << more(total.before_nano, total.after_nano)
               << " USD\n";
  if (!ask.apply && total.changed > 0)
    terminal.err << "Nothing was written; --apply does, while no callgate works with the file.\n";
  return kDone;
}

}  // namespace cli
