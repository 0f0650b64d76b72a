// Goal: a job that the store has never seen is claimed without waiting, and one that it may know never is. Method:
// the real store in a folder of its own, behind the real door.

#include "gateway/store_ledger.h"

#include <gtest/gtest.h>

#include <boost/asio.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "gateway/runtime.h"
#include "tests/ledger/store_support.h"

namespace gateway {
namespace store_ledger_test {

using namespace std::chrono_literals;
using Kind = ledger::ClaimAnswer::Kind;

struct House {
  explicit House(const std::string& path) {
    ledger::StoreOptions options;
    options.path = path;
    options.payloads = ledger::Payloads::Plain;
    options.now = [] { return std::chrono::system_clock::now(); };
    store = store_test::opened(options);
    door = std::make_unique<StoreLedger>(
        runtime, io, *store, [this](const std::string& call_id, const ledger::ClaimAnswer&) {
          mistaken.push_back(call_id);
        });
    door->configure(10s, 1h);
  }
  template <typename T>
  T get(task<T> what) {
    std::future<T> told = asio::co_spawn(io, std::move(what), asio::use_future);
    io.restart();
    while (told.wait_for(0s) != std::future_status::ready) io.run_one();
    return told.get();
  }
  void learn() {
    door->learn();
    io.restart();
    while (!door->known().is_complete()) io.run_one();
  }
  [[nodiscard]] static ledger::ClaimAsk ask(int scope, const std::string& call_id) {
    ledger::ClaimAsk one;
    one.scope = store_test::digest(scope);
    one.key = "k";
    one.tenant = "acme";
    one.call_id = call_id;
    one.now = std::chrono::system_clock::now();
    return one;
  }
  void open(int number) {
    const CallRecord call = store_test::call(number);
    OpenRow row = store_test::opening(call);
    row.durable = true;
    get(opening(row));
  }
  task<int> opening(const OpenRow& row) {
    co_await door->open(row);
    co_return 0;
  }

  asio::io_context io{1};
  RealRuntime runtime{};
  std::unique_ptr<ledger::Store> store{};
  std::vector<std::string> mistaken{};
  std::unique_ptr<StoreLedger> door{};
};

TEST(StoreLedger, only_what_was_certainly_never_seen_is_claimed_ahead) {
  const store_test::Folder folder;
  const std::string path = folder.path("calls.db");
  const std::string id = store_test::id_of(1);
  {
    House house{path};
    EXPECT_FALSE(house.door->claim_ahead(House::ask(9, id))) << "not all is known yet";
    house.learn();
    house.door->in_trouble(true);
    EXPECT_FALSE(house.door->claim_ahead(House::ask(1, id)));
    house.door->in_trouble(false);
    ASSERT_TRUE(house.door->claim_ahead(House::ask(1, id)));
    EXPECT_FALSE(house.door->claim_ahead(House::ask(1, store_test::id_of(2))));
    // The durable row covers the claim: whoever asks behind it is told of it.
    house.open(1);
    EXPECT_EQ(house.get(house.door->claim(House::ask(1, store_test::id_of(2)))).kind, Kind::Held);
    EXPECT_TRUE(house.mistaken.empty());
  }
  House house{path};
  house.learn();
  EXPECT_FALSE(house.door->claim_ahead(House::ask(1, store_test::id_of(3)))) << "of the process before";
  EXPECT_EQ(house.get(house.door->claim(House::ask(1, store_test::id_of(3)))).kind, Kind::Unknown);
  EXPECT_TRUE(house.door->claim_ahead(House::ask(2, store_test::id_of(4))));
}

TEST(StoreLedger, a_claim_ahead_that_another_has_is_not_silent) {
  const store_test::Folder folder;
  House house{folder.path("calls.db")};
  house.learn();
  // Behind the door's back, as only a bug could.
  ASSERT_EQ(store_test::claimed(*house.store, House::ask(1, store_test::id_of(1))).kind, Kind::Ours);
  ASSERT_TRUE(house.door->claim_ahead(House::ask(1, store_test::id_of(2))));
  house.open(2);
  EXPECT_EQ(house.mistaken, std::vector<std::string>{store_test::id_of(2)});
}

}  // namespace store_ledger_test
}  // namespace gateway
