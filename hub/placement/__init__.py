"""Which runner takes a job, and why: the one definition of fit, rank, hold and their sentences.

Pure: values in, values out. No clock, no database, no network, no log; `now_ms` is an argument.
Whoever asks "does this job fit on this runner" (a claim, a waiting reason, a preview, the fleet
view) asks here and nowhere else: two copies that drift apart would let one say "roomy" and the
other "full", and a job wait for ever.
"""
