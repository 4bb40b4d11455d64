"""Jobs: one way to ask for a run, to know everything before it spends, and to carry it out.

A request is plain values. `prepare` reads what may be read and raises `Problems` with all faults;
what it returns knows cost, forecast and balance. `carry_out` charges the account, runs, and tells a
watch what happens.
"""
