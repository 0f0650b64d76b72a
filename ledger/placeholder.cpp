// ledger
