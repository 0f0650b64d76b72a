#include "bench/overhead/report.h"

#include <algorithm>
#include <cstdio>
#include <optional>

namespace bench {
namespace {

// clang-format off
const std::map<Figure, Row> kRows = {
    {Figure::PlainClosedCpu,  {"plain upstream, 32 connections, closed loop", "CPU per call", "us", 1, Compare::RatioToNginx, 2.7, 1.5}},
    {Figure::PlainClosedRate, {"", "calls per second", "", 0, Compare::RatioToNginx, 0, 0}},
    {Figure::PlainClosedP50,  {"", "p50", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::PlainClosedP99,  {"", "p99", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::PlainOneCpu,     {"plain upstream, 1 connection, closed loop", "CPU per call", "us", 1, Compare::RatioToNginx, 0, 0}},
    {Figure::PlainOneP50,     {"", "p50", "us", 1, Compare::AddedRatio, 1.7, 1.2}},
    {Figure::PlainOneP99,     {"", "p99", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::PlainPacedCpu,   {"plain upstream, 64 connections at 2000 calls/s", "CPU per call", "us", 1, Compare::RatioToNginx, 0, 0}},
    {Figure::PlainPacedP50,   {"", "p50", "us", 0, Compare::AddedRatio, 1.7, 1.2}},
    {Figure::PlainPacedP99,   {"", "p99", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::TlsClosedCpu,    {"TLS upstream, 32 connections, closed loop", "CPU per call", "us", 1, Compare::RatioToNginx, 2.3, 1.4}},
    {Figure::TlsClosedRate,   {"", "calls per second", "", 0, Compare::RatioToNginx, 0, 0}},
    {Figure::TlsClosedP50,    {"", "p50", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::TlsClosedP99,    {"", "p99", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::TlsOneCpu,       {"TLS upstream, 1 connection, closed loop", "CPU per call", "us", 1, Compare::RatioToNginx, 0, 0}},
    {Figure::TlsOneP50,       {"", "p50", "us", 1, Compare::AddedRatio, 1.7, 1.2}},
    {Figure::TlsOneP99,       {"", "p99", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::TlsPacedCpu,     {"TLS upstream, 64 connections at 2000 calls/s", "CPU per call", "us", 1, Compare::RatioToNginx, 0, 0}},
    {Figure::TlsPacedP50,     {"", "p50", "us", 0, Compare::AddedRatio, 1.7, 1.2}},
    {Figure::TlsPacedP99,     {"", "p99", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::FirstTokenCpu,   {"short streams (3 events), 1 connection, closed loop", "CPU per call", "us", 1, Compare::RatioToNginx, 0, 0}},
    {Figure::FirstTokenP50,   {"", "first token p50", "us", 1, Compare::AddedRatio, 2.0, 1.3}},
    {Figure::FirstTokenP99,   {"", "first token p99", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::StreamsCpu,      {"500 streams of 50 events/s, 200 bytes each", "CPU per chunk", "us", 1, Compare::RatioToNginx, 1.8, 1.25}},
    {Figure::StreamsRate,     {"", "events per second", "", 0, Compare::Nothing, 0, 0}},
    {Figure::StreamsP50,      {"", "event delay p50", "us", 0, Compare::Nothing, 0, 0}},
    {Figure::StreamsP99,      {"", "event delay p99", "us", 0, Compare::Nothing, 0, 0}},
    {Figure::BigCpu,          {"5 MB request, 4 connections, closed loop", "CPU per call", "us", 0, Compare::RatioToNginx, 2.0, 1.4}},
    {Figure::BigP50,          {"", "p50", "us", 0, Compare::AddedRatio, 0, 0}},
    {Figure::BigPeak,         {"", "peak RSS over idle / bodies", "", 2, Compare::Itself, 1.5, 1.1}},
    {Figure::ShortAloneCpu,   {"a short call, 8 connections at 500 calls/s", "CPU, no stream open", "us", 1, Compare::RatioToNginx, 0, 0}},
    {Figure::ShortBesideCpu,  {"", "CPU, 2000 idle streams open", "us", 1, Compare::RatioToNginx, 0, 0}},
    {Figure::ShortCpuRatio,   {"", "CPU, the latter / the former", "", 2, Compare::Itself, 1.5, 1.1}},
    {Figure::ShortAloneP50,   {"", "p50, no stream open", "us", 0, Compare::Nothing, 0, 0}},
    {Figure::ShortBesideP50,  {"", "p50, 2000 idle streams open", "us", 0, Compare::Nothing, 0, 0}},
    {Figure::IdleStream,      {"at rest", "memory per idle stream", "kB", 1, Compare::Itself, 40, 25}},
    {Figure::IdleStreamTls,   {"", "the same, TLS upstream", "kB", 1, Compare::Itself, 85, 60}},
    {Figure::IdleRss,         {"", "idle RSS", "MiB", 1, Compare::Itself, 16, 8}},
    {Figure::StartToReady,    {"", "start to ready", "ms", 1, Compare::Itself, 100, 30}},
    {Figure::ExecutableSize,  {"", "stripped executable", "MB", 1, Compare::Itself, 15, 8}},
    {Figure::Errors,          {"calls that failed, all of the above", "errors", "", 0, Compare::Nothing, 0, 0}},
};
// clang-format on

using ByTarget = std::map<Target, std::vector<double>>;

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<double> of(const ByTarget& values, Target target) {
  const auto found = values.find(target);
  return found == values.end() ? std::vector<double>{} : found->second;
}

/// Figures of one round are compared with each other: the machine changes between rounds more than within one.
std::optional<double> verdict(Compare compare, const ByTarget& values) {
  const std::vector<double> direct = of(values, Target::Direct);
  const std::vector<double> nginx = of(values, Target::Nginx);
  const std::vector<double> ours = of(values, Target::Callgate);
  if (compare == Compare::Nothing) return std::nullopt;
  if (compare == Compare::Itself) return median(ours);
  std::vector<double> ratios;
  for (std::size_t round = 0; round < std::min(nginx.size(), ours.size()); ++round) {
    const double base = compare == Compare::AddedRatio && round < direct.size() ? direct[round] : 0;
    // Where nginx is no slower than no proxy, there is nothing to hold us against.
    if (nginx[round] > base) ratios.push_back((ours[round] - base) / (nginx[round] - base));
  }
  return median(ratios);
}

std::string cell(std::optional<double> value, int decimals) {
  if (!value) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", decimals, *value);
  return text;
}

template <typename... Cells>
std::string line(const char* format, const Cells&... cells) {
  char text[200];
  std::snprintf(text, sizeof text, format, cells.c_str()...);
  return text;
}

}  // namespace

std::string Report::table() const {
  constexpr const char* kLine = "  %-34s %10s %10s %10s %10s %9s %7s %7s\n";
  const auto title = [](Target target) { return std::string{kTargetNames[static_cast<std::size_t>(target)]}; };
  std::string text = line(kLine,
                          std::string{},
                          title(Target::Direct),
                          title(Target::Nginx),
                          title(Target::Haproxy),
                          title(Target::Callgate),
                          std::string{"ratio"},
                          std::string{"gate"},
                          std::string{"aim"});
  for (const auto& [figure, described] : kRows) {
    const Row& row = described;
    if (!row.group.empty()) text += std::string{row.group} + "\n";
    const auto found = values_.find(figure);
    if (found == values_.end()) continue;
    const ByTarget& values = found->second;
    const auto shown = [&](Target target) { return cell(median(of(values, target)), row.decimals); };
    std::string name{row.name};
    if (!row.unit.empty()) name += ", " + std::string{row.unit};
    std::string held = cell(verdict(row.compare, values), 2);
    if (row.compare == Compare::AddedRatio && held != "-") held = "+" + held;
    text += line(kLine,
                 name,
                 shown(Target::Direct),
                 shown(Target::Nginx),
                 shown(Target::Haproxy),
                 shown(Target::Callgate),
                 held,
                 row.gate > 0 ? cell(row.gate, 2) : std::string{},
                 row.aim > 0 ? cell(row.aim, 2) : std::string{});
  }
  return text +
         "\nratio: callgate's figure ÷ nginx's; with +, what it adds to direct ÷ what nginx adds; in rows about one "
         "process\nalone, callgate's own figure. gate: what a release must show; aim: what we work towards. "
         "Nothing here passes or fails.\n";
}

}  // namespace bench
