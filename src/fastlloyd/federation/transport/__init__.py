"""What drives the sessions of a run: carries messages, keeps the ledger, watches the clock."""
