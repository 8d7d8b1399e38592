"""The agent that runs jobs: it claims them from a hub, runs each in a sandbox, and reports.

It carries no database and no web framework: `hub.wire` is all it shares with the hub. Importing it
starts nothing; `python -m runner --help` tells its options.
"""
