"""Agreement of all parties before a run: the plan, its design and its renewal."""
