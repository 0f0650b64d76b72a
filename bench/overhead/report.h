#pragma once
// How does callgate stand beside nginx, HAProxy and no proxy at all? Collects figures by round and prints their
// medians.

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

enum class Target { Direct, Nginx, Haproxy, Callgate };
inline constexpr std::string_view kTargetNames[] = {"direct", "nginx", "haproxy", "callgate"};

/// How callgate's figure is held against the gate.
enum class Compare {
  Nothing,  // For the reader's eye only.
  RatioToNginx,
  AddedRatio,  // What it adds to direct ÷ what nginx adds to direct, of the same round.
  Itself,      // The figure as it is.
};

struct Row {
  std::string_view group;
  std::string_view name;
  std::string_view unit;
  int decimals;
  Compare compare;
  double gate;  // 0: none. What a release must show, and what we work towards (design §11).
  double aim;
};

enum class Figure {
  PlainClosedCpu,
  PlainClosedRate,
  PlainClosedP50,
  PlainClosedP99,
  PlainOneCpu,
  PlainOneP50,
  PlainOneP99,
  PlainPacedCpu,
  PlainPacedP50,
  PlainPacedP99,
  TlsClosedCpu,
  TlsClosedRate,
  TlsClosedP50,
  TlsClosedP99,
  TlsOneCpu,
  TlsOneP50,
  TlsOneP99,
  TlsPacedCpu,
  TlsPacedP50,
  TlsPacedP99,
  FirstTokenCpu,
  FirstTokenP50,
  FirstTokenP99,
  StreamsCpu,
  StreamsRate,
  StreamsP50,
  StreamsP99,
  BigCpu,
  BigP50,
  BigPeak,
  ShortAloneCpu,
  ShortBesideCpu,
  ShortCpuRatio,
  ShortAloneP50,
  ShortBesideP50,
  IdleStream,
  IdleStreamTls,
  IdleRss,
  StartToReady,
  ExecutableSize,
  Errors,
};

class Report {
 public:
  void add(Figure figure, Target target, double value) { values_[figure][target].push_back(value); }
  /// Medians over the rounds, as a table.
  [[nodiscard]] std::string table() const;

 private:
  std::map<Figure, std::map<Target, std::vector<double>>> values_{};
};

}  // namespace bench
