#pragma once
// How does the process begin to remember: which store, and what of the time before it counts again?

#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "gateway/admission.h"
#include "gateway/config.h"
#include "ledger/store.h"

namespace gateway {

[[nodiscard]] ledger::Retention retention_of(const Config::Store& store);

/// Opens the file; with store.on_failure: serve memory takes its place while it cannot be used. Throws
/// std::runtime_error, with the mend, for what must not be served over: another callgate's file, one of a newer
/// version, a payload key that cannot be read and, with on_failure: refuse, everything.
[[nodiscard]] std::unique_ptr<ledger::Store> open_store(const Config& config, const Environment& environment);

/// Whose money is limited under `now` in a way that it was not under `before`, and is not counted yet. To be asked
/// before `now` comes into force.
struct MoneyToRestore {
  std::set<std::string, std::less<>> tenants{};  // Day and month.
  std::set<std::string, std::less<>> runs{};     // Tenants; those of their runs that are not counted yet.
};
[[nodiscard]] MoneyToRestore money_to_restore(const Config* before, const Config& now, DispatchAdmission& admission);

/// How long the start waits for the store, and a reload, which holds everybody up meanwhile.
inline constexpr std::chrono::milliseconds kAtStart{30'000};
inline constexpr std::chrono::milliseconds kAtReload{1'000};

/// Block for as long as that at most, twice. Empty: done; else what could not be read, for people: then budgets begin
/// at nothing.
[[nodiscard]] std::string restore_pauses(
    ledger::Store& store, Runtime& runtime,
    const std::function<void(budget::Pausable what, const std::string& name, TimePoint until)>& pause);
[[nodiscard]] std::string restore_money(ledger::Store& store, DispatchAdmission& admission, Runtime& runtime,
                                        const MoneyToRestore& wanted, std::chrono::milliseconds patience);

}  // namespace gateway
