"""Chunks on their way between a hub and a file: what the command line and the runner share of it.

A leaf like `chunks`, on the standard library and `chunks` alone: `link` (one connection), `transfer`
(batches over two of them, with retries), `part` (a file that is being put together), `fetch` (all of a
fetch). What arrives is believed by its name only, and whatever is cut off goes on where it stood.
"""
