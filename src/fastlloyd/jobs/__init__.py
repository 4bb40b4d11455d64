"""Jobs: requests for runs, their preparation, and the runs themselves.

A request consists of plain values. `prepare` reads what may be read, spends no budget, and raises
`Problems` with all faults. Its result has the cost, the forecast and the balance of the account.
`carry_out` charges the account, does the run, and reports events to a watch.
"""
