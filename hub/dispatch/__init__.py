"""The live fleet: what waits, who polls, open claims, holds, leases and wake-ups.

The shell around `hub.placement`: it keeps the facts, asks for a decision, and carries it out in one
write. All that must outlive the process is in the store; what is here is rebuilt from it at start.
Everything runs on one event loop, and nothing is awaited between reading the facts and deciding.
"""
